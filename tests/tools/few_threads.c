/*
 * few_threads - lets a process start no more threads while a file exists.
 *
 *   FEW_THREADS=FILE LD_PRELOAD=few_threads.so opensm ...
 *
 * As with a limit on processes (RLIMIT_NPROC, pids.max), which does not hold for root in a test.
 * FILE holds how many may be started yet; an empty one means none.
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
