#include "backends/numerics/oracle.h"
