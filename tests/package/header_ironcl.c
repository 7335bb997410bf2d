/* SPDX-License-Identifier: Apache-2.0
 * ironcl.h alone as C11. */
#include <ironcl/ironcl.h>

int ironcl_h_alone(void);
int ironcl_h_alone(void) { return (int)sizeof(ironcl_candidate); }
