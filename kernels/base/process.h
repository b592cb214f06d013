/* What a program settles about itself before anything else. */
#ifndef KERNELS_BASE_PROCESS_H
#define KERNELS_BASE_PROCESS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Standard descriptors that the caller closed are opened on /dev/null, so that no result file gets their numbers and
 * with it what is printed; writing to such an output fails. A closed pipe (SIGPIPE) and a file over the size limit
 * (SIGXFSZ) become failed writes, which have messages, instead of the end of the program. */
void mk_process_init(void);

#ifdef __cplusplus
}
#endif

#endif
