/* Folders of a run and small files in them. */
#ifndef SUITE_RUN_FOLDER_H
#define SUITE_RUN_FOLDER_H

#include "suite/run/run.h"

/* UTC now as "2026-01-31T12:00:00Z". */
void ms_utc_now(char out[32]);

/* Makes <out>/<study>/<UTC stamp>-<six hex digits>, which must not exist, and points <out>/<study>/latest at it. */
mk_status ms_run_folder_make(mk_context *ctx, const char *out, const char *study, ms_run *run);

/* "%experts=8 %stack=ddp" -> "experts=8,stack=ddp": letters, digits and ._=- stay, the rest becomes '_'. A name that
 * is changed or cut off (200 characters) gets "-<number>", the case's own, so that no two cases share a folder. */
void ms_case_folder(const char *case_name, int number, char *out, size_t bytes);

/* Makes <run>/<case>/launch-<number>, which must not exist; fills launch->folder. */
mk_status ms_launch_folder_make(mk_context *ctx, const ms_run *run, ms_launch *launch);

/* Writes `text` as file `name` of a folder. */
mk_status ms_text_write(mk_context *ctx, const char *folder, const char *name, const char *text);

/* Most telling line of a log: a program of ours's error, else the first that says "error", else the last that says
 * anything; "" if none. */
void ms_log_hint(mk_context *ctx, const char *folder, const char *name, char *out, size_t bytes);

#endif
