#include "backends/numerics/casts.h"
