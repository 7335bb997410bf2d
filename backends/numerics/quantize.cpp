#include "backends/numerics/quantize.h"
