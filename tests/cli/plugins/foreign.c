/* SPDX-License-Identifier: Apache-2.0
 * A shared library that is no plugin: it has a symbol, but not ours. */
__attribute__((visibility("default"))) int foreign_answer(void) { return 42; }
