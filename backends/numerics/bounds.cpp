#include "backends/numerics/bounds.h"
