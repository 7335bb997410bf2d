/* SPDX-License-Identifier: Apache-2.0
 * A library that is no plugin. Its constructor sets a variable: nobody who only looks for plugins may run it. */
#define _XOPEN_SOURCE 600
#include <stdlib.h>

__attribute__((visibility("default"))) int foreign_answer(void) { return 42; }

__attribute__((constructor)) static void leave_a_trace(void) { putenv((char*)"FOREIGN_LIBRARY_RAN=yes"); }
