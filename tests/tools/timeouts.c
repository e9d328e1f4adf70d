/*
 * timeouts - gives clients of ibsim what Linux gives to clients of a real adapter: timeouts.
 *
 *   LD_PRELOAD="timeouts.so libumad2sim.so" opensm ...
 *
 * The kernel retries a request when its time has passed, and finally returns it with ETIMEDOUT; it
 * delivers an answer only to a request that is still pending. umad2sim does neither. ibsim itself
 * returns requests that find no path through the fabric, and with Unix sockets it notices that a client
 * has gone. With UDP, as between containers, it does not: requests to a killed subnet manager are lost,
 * and OpenSM, which waits until nothing is outstanding, never sweeps again. This library is loaded
 * between the two and adds timeouts.
 *
 * cc -O2 -shared -fPIC -o timeouts.so timeouts.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long the real umad_recv may wait before the clock is checked again. */
#define TICK_MS 20
/* Fields of the header that all management datagrams share, by offset. */
#define MAD_CLASS 1
#define MAD_METHOD 3
#define MAD_TID 8
#define MAD_HEADER 24
#define RESPONSE 0x80

struct request {
	struct request *next;
	int fd, agent, length, timeout, left;
	int64_t due;
	struct ib_user_mad *umad;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct request *waiting;

typedef int send_fn(int, int, void *, int, int, int);
typedef int recv_fn(int, void *, int *, int);

static void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort(); /* preloaded into a program without libibumad */
	return found;
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The part that an answer shares with its request; the kernel, too, compares only the low half. */
static uint32_t transaction(const struct ib_user_mad *umad)
{
	uint64_t tid;

	memcpy(&tid, umad->data + MAD_TID, sizeof(tid));
	return (uint32_t)be64toh(tid);
}

static void drop(struct request *request)
{
	free(request->umad);
	free(request);
}

/* Removes the request of an answer or, without an answer, any overdue request of fd. */
static struct request *take(int fd, const struct ib_user_mad *answer)
{
	struct request **at, *found;

	for (at = &waiting; (found = *at); at = &found->next) {
		if (found->fd != fd)
			continue;
		if (answer ? transaction(found->umad) == transaction(answer) &&
				     found->umad->data[MAD_CLASS] == answer->data[MAD_CLASS]
			   : found->due <= now()) {
			*at = found->next;
			return found;
		}
	}
	return NULL;
}

static void put(struct request *request)
{
	request->due = now() + request->timeout;
	request->next = waiting;
	waiting = request;
}

int umad_send(int fd, int agent, void *umad, int length, int timeout_ms, int retries)
{
	send_fn *send = (send_fn *)next("umad_send");
	struct request *request = NULL;
	int result;

	if (timeout_ms > 0 && length >= MAD_HEADER) {
		request = calloc(1, sizeof(*request));
		if (request)
			request->umad = malloc(umad_size() + length);
		if (!request || !request->umad)
			abort();
		request->fd = fd;
		request->agent = agent;
		request->length = length;
		request->timeout = timeout_ms;
		request->left = retries;
		memcpy(request->umad, umad, umad_size() + length);
		pthread_mutex_lock(&lock);
		put(request); /* first: the answer may arrive before the real call returns */
		pthread_mutex_unlock(&lock);
	}
	result = send(fd, agent, umad, length, timeout_ms, retries);
	if (result < 0 && request) {
		pthread_mutex_lock(&lock);
		request = take(fd, umad);
		pthread_mutex_unlock(&lock);
		if (request)
			drop(request);
	}
	return result;
}

int umad_recv(int fd, void *umad, int *length, int timeout_ms)
{
	recv_fn *recv = (recv_fn *)next("umad_recv");
	send_fn *send = (send_fn *)next("umad_send");
	int64_t end = now() + timeout_ms;
	struct ib_user_mad *got = umad;
	struct request *request;
	int result, room = *length, wait;

	for (;;) {
		pthread_mutex_lock(&lock);
		request = take(fd, NULL);
		if (request && request->left > 0) {
			/* Back on the list before it is sent, as in umad_send. */
			struct ib_user_mad *copy = malloc(umad_size() + request->length);
			int agent = request->agent, size = request->length, time = request->timeout;

			if (!copy)
				abort();
			memcpy(copy, request->umad, umad_size() + size);
			request->left--;
			put(request);
			pthread_mutex_unlock(&lock);
			send(fd, agent, copy, size, time, 0);
			free(copy);
			continue;
		}
		pthread_mutex_unlock(&lock);
		if (request) {
			int size = request->length < room ? request->length : room;

			memcpy(umad, request->umad, umad_size() + size);
			got->agent_id = request->agent;
			got->status = ETIMEDOUT;
			*length = size;
			result = request->agent;
			drop(request);
			return result;
		}

		wait = TICK_MS;
		if (timeout_ms >= 0 && end - now() < wait)
			wait = end > now() ? (int)(end - now()) : 0;
		*length = room;
		result = recv(fd, umad, length, wait);
		if (result >= 0 && (got->status || (got->data[MAD_METHOD] & RESPONSE))) {
			pthread_mutex_lock(&lock);
			request = take(fd, got);
			pthread_mutex_unlock(&lock);
			if (!request)
				continue; /* no longer pending */
			drop(request);
		}
		if (result >= 0 || (result != -ETIMEDOUT && result != -EWOULDBLOCK && result != -EAGAIN))
			return result;
		if (timeout_ms >= 0 && now() >= end)
			return result;
	}
}
