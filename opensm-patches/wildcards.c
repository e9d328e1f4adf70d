/*
 * wildcards - switches of ibsim with OptimizedSLtoVLMappingProgramming, to try patch 0004 on.
 *
 *   LD_PRELOAD="wildcards.so libumad2sim.so" WILDCARDS_COUNT=FILE opensm ...
 *
 * Loaded between OpenSM and the simulator. It sets the capability's bit in each SwitchInfo that passes, splits a Set of
 * an SLtoVLMappingTable for "all in ports" or "all out ports" into one for each pair, as the switch would do
 * internally, and answers OpenSM when the simulator has answered all of them. So the simulated switches hold what the
 * wildcards mean by the specification, not by the patch: all ports are 1 to the last, and port 0 too if it is an
 * enhanced one. At the end the number of Sets that OpenSM sent is written to FILE, in total and with wildcards.
 *
 * cc -O2 -shared -fPIC -o wildcards.so wildcards.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <endian.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A subnet management packet, by offset. */
enum {
	CLASS = 1, METHOD = 3, STATUS = 4, HOPS = 7, TID = 8, ATTRIBUTE = 16, MODIFIER = 20,
	DATA = 64, PATH = 128, SIZE = 256
};
enum { DIRECTED = 0x81, BY_LID = 0x01, SET = 2, ANSWER = 0x81 };
enum { NODE_INFO = 0x11, SWITCH_INFO = 0x12, SL_TO_VL = 0x17 };
/* NodeInfo's type and number of ports; SwitchInfo's byte with the capability, and that with enhanced port 0. */
enum { NODE_TYPE = DATA + 2, NODE_PORTS = DATA + 3, CAPABILITY = DATA + 11, FLAGS = DATA + 16 };
#define ALL_OUT 0x10000u
#define ALL_IN 0x20000u
/* Transactions of our own. OpenSM's begin at a random 16-bit number and count up. */
#define OURS 0x70000000u

struct node {
	struct node *next;
	uint8_t hops, path[64], ports, enhanced;
};
struct wild {
	struct wild *next;
	uint32_t first, pairs, answered;
	uint8_t failed[2];
	uint8_t original[SIZE];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node *nodes;
static struct wild *wilds;
static uint32_t transaction = OURS;
static unsigned long sets, wildcards;

static void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	return found;
}

static void fail(const char *what)
{
	fprintf(stderr, "wildcards: %s\n", what);
	abort();
}

static unsigned get(const uint8_t *mad, int at, int bytes)
{
	unsigned value = 0;

	while (bytes--)
		value = value << 8 | mad[at++];
	return value;
}

static void put(uint8_t *mad, int at, int bytes, unsigned value)
{
	while (bytes--) {
		mad[at + bytes] = value & 0xff;
		value >>= 8;
	}
}

/* The node at the end of a directed path; made if it is not known yet. */
static struct node *at_end(const uint8_t *mad)
{
	struct node *node;
	size_t length = mad[HOPS] + 1u;

	for (node = nodes; node; node = node->next)
		if (node->hops == mad[HOPS] && !memcmp(node->path, mad + PATH, length))
			return node;
	node = calloc(1, sizeof(*node));
	if (!node || length > sizeof(node->path))
		fail("no memory, or a path that is too long");
	node->hops = mad[HOPS];
	memcpy(node->path, mad + PATH, length);
	node->next = nodes;
	nodes = node;
	return node;
}

int umad_send(int fd, int agent, void *umad, int length, int timeout, int retries)
{
	int (*send)(int, int, void *, int, int, int) = next("umad_send");
	uint8_t *mad = ((struct ib_user_mad *)umad)->data, *copy;
	unsigned modifier, in, out, first, in_from, in_to, out_from, out_to;
	struct wild *wild;
	struct node *node;
	uint32_t own;
	int result = 0;

	if (length != SIZE || (mad[CLASS] != DIRECTED && mad[CLASS] != BY_LID) || mad[METHOD] != SET ||
	    get(mad, ATTRIBUTE, 2) != SL_TO_VL)
		return send(fd, agent, umad, length, timeout, retries);
	modifier = get(mad, MODIFIER, 4);
	pthread_mutex_lock(&lock);
	sets++;
	if (!(modifier & (ALL_IN | ALL_OUT))) {
		pthread_mutex_unlock(&lock);
		return send(fd, agent, umad, length, timeout, retries);
	}
	wildcards++;
	if (mad[CLASS] != DIRECTED)
		fail("a wildcard by LID is not provided for");
	node = at_end(mad);
	if (!node->ports)
		fail("a wildcard to a node that is no switch, or by an unknown path");
	first = node->enhanced ? 0 : 1;
	in_from = modifier & ALL_IN ? first : modifier >> 8 & 0xff;
	in_to = modifier & ALL_IN ? node->ports : in_from;
	out_from = modifier & ALL_OUT ? first : modifier & 0xff;
	out_to = modifier & ALL_OUT ? node->ports : out_from;
	wild = calloc(1, sizeof(*wild));
	copy = malloc(umad_size() + length);
	if (!wild || !copy)
		fail("no memory");
	memcpy(wild->original, mad, SIZE);
	wild->pairs = (in_to - in_from + 1) * (out_to - out_from + 1);
	own = wild->first = transaction;
	transaction += wild->pairs;
	wild->next = wilds;
	wilds = wild;
	pthread_mutex_unlock(&lock);

	for (out = out_from; out <= out_to; out++)
		for (in = in_from; in <= in_to; in++) {
			uint8_t *one = ((struct ib_user_mad *)copy)->data;

			memcpy(copy, umad, umad_size() + length);
			put(one, MODIFIER, 4, in << 8 | out);
			put(one, TID + 4, 4, own++);
			if (send(fd, agent, copy, length, timeout, retries) < 0)
				result = -1;
		}
	free(copy);
	return result;
}

/* Whether the packet is for OpenSM: an answer to a request of ours is not, but for the last, which becomes its. */
static int for_opensm(uint8_t *mad)
{
	uint32_t tid = get(mad, TID + 4, 4);
	struct wild **at, *wild;

	if (get(mad, ATTRIBUTE, 2) != SL_TO_VL || tid < OURS || tid >= transaction)
		return 1;
	for (at = &wilds; (wild = *at); at = &wild->next)
		if (tid - wild->first < wild->pairs)
			break;
	if (!wild)
		fail("an answer to nothing");
	if (get(mad, STATUS, 2) & 0x7fff)
		memcpy(wild->failed, mad + STATUS, 2);
	if (++wild->answered < wild->pairs)
		return 0;
	memcpy(mad + TID, wild->original + TID, 8);
	memcpy(mad + MODIFIER, wild->original + MODIFIER, 4);
	memcpy(mad + DATA, wild->original + DATA, 64);
	if (wild->failed[0] | wild->failed[1])
		memcpy(mad + STATUS, wild->failed, 2);
	*at = wild->next;
	free(wild);
	return 1;
}

int umad_recv(int fd, void *umad, int *length, int timeout)
{
	int (*recv)(int, void *, int *, int) = next("umad_recv");
	uint8_t *mad = ((struct ib_user_mad *)umad)->data;
	int result, room = *length, pass = 0;

	do {
		*length = room;
		result = recv(fd, umad, length, timeout);
		if (result < 0 || *length != SIZE || mad[METHOD] != ANSWER ||
		    (mad[CLASS] != DIRECTED && mad[CLASS] != BY_LID))
			return result;
		pthread_mutex_lock(&lock);
		if (mad[CLASS] == DIRECTED && get(mad, ATTRIBUTE, 2) == NODE_INFO && mad[NODE_TYPE] == 2)
			at_end(mad)->ports = mad[NODE_PORTS];
		if (get(mad, ATTRIBUTE, 2) == SWITCH_INFO) {
			mad[CAPABILITY] |= 1;
			if (mad[CLASS] == DIRECTED)
				at_end(mad)->enhanced = mad[FLAGS] >> 3 & 1;
		}
		pass = for_opensm(mad);
		pthread_mutex_unlock(&lock);
	} while (!pass);
	return result;
}

__attribute__((destructor)) static void count(void)
{
	const char *name = getenv("WILDCARDS_COUNT");
	FILE *file = name ? fopen(name, "w") : NULL;

	if (file) {
		fprintf(file, "%lu %lu\n", sets, wildcards);
		fclose(file);
	}
}
