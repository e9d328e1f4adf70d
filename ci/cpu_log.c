/*
 * CPU seconds beside lines of OpenSM's log: preloaded into opensm, it writes to the file that CPU_LOG names, for each
 * line of interest, the CPU time of the process so far (user and system, all threads) and the line.
 *
 *   gcc -shared -fPIC -o cpu_log.so cpu_log.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const of_interest[] = {"building routing", "tables configured", "snapshot to commit"};

static void note(const char *line)
{
	static FILE *file;
	const char *name = getenv("CPU_LOG");
	struct timespec now;
	size_t i;

	for (i = 0; i < sizeof(of_interest) / sizeof(*of_interest); i++)
		if (strstr(line, of_interest[i]))
			break;
	if (i == sizeof(of_interest) / sizeof(*of_interest) || !name)
		return;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	if (!file && !(file = fopen(name, "a")))
		return;
	fprintf(file, "%ld.%06ld %s\n", (long)now.tv_sec, now.tv_nsec / 1000, of_interest[i]);
	fflush(file);
}

typedef void log_v2(void *log, int level, int file_id, const char *format, ...);
typedef void log_v1(void *log, int level, const char *format, ...);

void osm_log_v2(void *log, int level, int file_id, const char *format, ...)
{
	char line[8192];
	va_list more;

	va_start(more, format);
	vsnprintf(line, sizeof(line), format, more);
	va_end(more);
	note(line);
	((log_v2 *)dlsym(RTLD_NEXT, "osm_log_v2"))(log, level, file_id, "%s", line);
}

void osm_log(void *log, int level, const char *format, ...)
{
	char line[8192];
	va_list more;

	va_start(more, format);
	vsnprintf(line, sizeof(line), format, more);
	va_end(more);
	note(line);
	((log_v1 *)dlsym(RTLD_NEXT, "osm_log"))(log, level, "%s", line);
}
