/* SPDX-License-Identifier: Apache-2.0
 * checkpoint.h alone as C11. */
#include <ironcl/checkpoint.h>

int checkpoint_h_alone(void);
int checkpoint_h_alone(void) { return (int)sizeof(ironcl_layer_info); }
