/* Sentences that terminal and Markdown share. */
#ifndef SUITE_REPORT_CAPTION_H
#define SUITE_REPORT_CAPTION_H

#include "suite/report/report.h"

enum { MS_CAPTION_BYTES = 1024 };

/* "expert-scaling, scale local, system local, 36 of 36 launches" */
void ms_caption_run(const ms_report *report, char *out, size_t bytes);

/* What the main table shows and what its ratio's base is. */
void ms_caption_cases(const ms_report *report, char *out, size_t bytes);

/* What the references are, and what to do where there is none; "" when nothing needs saying. */
void ms_caption_reference(const ms_report *report, char *out, size_t bytes);

#endif
