/*
 * few_threads - limits the threads that a process may start while a file exists.
 *
 *   FEW_THREADS=FILE LD_PRELOAD=few_threads.so opensm ...
 *
 * Like a limit on processes (RLIMIT_NPROC, pids.max), which does not apply to root in a test.
 * FILE holds the number that may still be started; an empty one means none.
 *
 * cc -O2 -shared -fPIC -o few_threads.so few_threads.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *argument)
{
	create_fn *create = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");
	const char *name = getenv("FEW_THREADS");
	FILE *file = name ? fopen(name, "r+") : NULL;
	int left = 0;

	if (!create)
		abort();
	if (file) {
		if (fscanf(file, "%d", &left) != 1)
			left = 0;
		if (left > 0) {
			rewind(file);
			fprintf(file, "%d    ", left - 1);
		}
		fclose(file);
		if (left <= 0)
			return EAGAIN;
	}
	return create(thread, attr, start, argument);
}
