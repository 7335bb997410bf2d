#include "backends/numerics/formats.h"
