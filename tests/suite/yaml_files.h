/* The YAML files of a folder, and the faults that reading one reports. */
#ifndef TESTS_SUITE_YAML_FILES_H
#define TESTS_SUITE_YAML_FILES_H

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "suite/study/diagnostics.h"
#include "suite/study/paths.h"

/* Calls `visit` for each file NAME.yaml of the folder; returns how many there are. */
static inline int each_yaml(const char *folder, void (*visit)(const char *path, const char *name)) {
  DIR *dir = opendir(folder);
  int files = 0;
  ck_assert_msg(dir != NULL, "cannot open %s", folder);
  for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
    mk_context ctx = {.heap_live = 0};
    char path[MS_PATH_BYTES];
    size_t length = strlen(entry->d_name);
    if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0) continue;
    ck_assert_int_eq(ms_path_join(&ctx, folder, entry->d_name, path), MK_OK);
    entry->d_name[length - 5] = '\0';
    visit(path, entry->d_name);
    files++;
  }
  closedir(dir);
  return files;
}

/* The same of a folder of the data that moemark ships. */
static inline int each_shipped_yaml(const char *relative, void (*visit)(const char *path, const char *name)) {
  mk_context ctx = {.heap_live = 0};
  char root[MS_PATH_BYTES], folder[MS_PATH_BYTES];
  ck_assert_int_eq(ms_path_data_root(&ctx, root), MK_OK);
  ck_assert_int_eq(ms_path_join(&ctx, root, relative, folder), MK_OK);
  return each_yaml(folder, visit);
}

static inline void print_faults(const ms_diagnostics *diag) {
  for (int i = 0; i < diag->count; i++)
    fprintf(stderr, "%s\n", diag->line[i]);
}

#endif
