/* What a plugin exports. */
#ifndef PLUGIN_H
#define PLUGIN_H
/* Values and gradients with so many threads; 0 if all is well. */
typedef int (*plugin_run_function)(int threads);
#endif
