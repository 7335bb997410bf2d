#include "backends/numerics/scale_grid.h"
