/* What this program was built from; written by build_info.cmake at every build. */
#ifndef SUITE_PROVENANCE_BUILD_INFO_H
#define SUITE_PROVENANCE_BUILD_INFO_H

typedef struct ms_build_info {
  const char *version;
  const char *commit;      /* "unknown" outside a git tree */
  const char *dirty;       /* "yes", "no" or "unknown": tracked files differ from the commit */
  const char *diff_sha256; /* of `git diff HEAD`; empty when clean */
  const char *build_type, *compiler, *flags;
} ms_build_info;

extern const ms_build_info MS_BUILD_INFO;

#endif
