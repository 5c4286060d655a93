/* Loads a plugin, calls it with several threads and unloads it, again and again: reload PLUGIN. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "plugin.h"

static int count_threads(void) {
  DIR *const tasks = opendir("/proc/self/task");
  const struct dirent *entry;
  int count = 0;
  while (tasks && (entry = readdir(tasks)) != NULL) count += entry->d_name[0] != '.';
  if (tasks) closedir(tasks);
  return count;
}

int main(int argc, char **argv) {
  const struct timespec moment = {0, 2000000};
  enum { threads = 3 };
  const int before = count_threads(); /* an emulator has more than ours */
  int round;
  for (round = 0; round < 20; ++round) {
    void *const plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *const symbol = plugin ? dlsym(plugin, "plugin_run") : NULL;
    plugin_run_function run;
    if (!symbol) {
      fprintf(stderr, "usage: reload PLUGIN: %s\n", argc == 2 ? dlerror() : "no plugin given");
      return 2;
    }
    memcpy(&run, &symbol, sizeof run);
    if (run(threads) != 0) {
      fprintf(stderr, "round %d: the plugin failed\n", round);
      return 1;
    }
    dlclose(plugin);
    nanosleep(&moment, NULL); /* its threads wake, and go to sleep, without it */
    if (count_threads() > before + threads - 1) {
      fprintf(stderr, "round %d: there are %d threads\n", round, count_threads());
      return 1;
    }
  }
  return 0;
}
