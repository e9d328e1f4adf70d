/*
 * sets - notes what OpenSM programs, in the order in which it sends it.
 *
 *   SETS_LOG=FILE LD_PRELOAD="sets.so libumad2sim.so" opensm ...
 *
 * FILE gets a line for each Set of a forwarding block, a multicast block or an SL2VL row by directed route:
 *
 *   ATTRIBUTE MODIFIER ROUTE DATA     numbers in hex; ROUTE is the out ports from OpenSM's own node on, with '-'
 *                                     between them; DATA is the 64 bytes
 *   discovery                         OpenSM asked for NodeInfo after the Sets before
 *
 * OpenSM discovers the fabric anew only when it has the answers to all Sets.
 *
 * cc -O2 -shared -fPIC -o sets.so sets.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* An SMP, by offset. */
#define MAD_SIZE 256
#define MAD_CLASS 1
#define MAD_METHOD 3
#define SMP_HOPS 7
#define MAD_ATTRIBUTE 16
#define MAD_MODIFIER 20
#define SMP_DATA 64
#define SMP_PATH 128
#define DATA_SIZE 64

#define CLASS_DIRECTED 0x81
#define GET 0x01
#define SET 0x02
#define NODE_INFO 0x11
#define SL2VL 0x17
#define LFT 0x19
#define MFT 0x1b

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *log_file;
static int programmed, discovers;

static void note(const uint8_t *mad)
{
	unsigned attribute = mad[MAD_ATTRIBUTE] << 8 | mad[MAD_ATTRIBUTE + 1];
	const uint8_t *m = mad + MAD_MODIFIER;

	if (mad[MAD_METHOD] == GET && attribute == NODE_INFO)
		discovers = programmed;
	if (mad[MAD_METHOD] != SET || (attribute != SL2VL && attribute != LFT && attribute != MFT))
		return;
	if (!log_file) {
		const char *name = getenv("SETS_LOG");

		log_file = name ? fopen(name, "w") : NULL;
		if (!log_file)
			abort(); /* a test that notes nothing proves nothing */
	}
	if (discovers)
		fprintf(log_file, "discovery\n");
	discovers = 0;
	programmed = 1;
	fprintf(log_file, "%x %x ", attribute, (unsigned)m[0] << 24 | m[1] << 16 | m[2] << 8 | m[3]);
	for (int hop = 1; hop <= mad[SMP_HOPS]; hop++)
		fprintf(log_file, "%s%x", hop > 1 ? "-" : "", mad[SMP_PATH + hop]);
	fputc(' ', log_file);
	for (int i = 0; i < DATA_SIZE; i++)
		fprintf(log_file, "%02x", mad[SMP_DATA + i]);
	fputc('\n', log_file);
	fflush(log_file);
}

int umad_send(int fd, int agent, void *umad, int length, int timeout_ms, int retries)
{
	int (*send)(int, int, void *, int, int, int) =
		(int (*)(int, int, void *, int, int, int))dlsym(RTLD_NEXT, "umad_send");
	const struct ib_user_mad *request = umad;

	if (!send)
		abort(); /* preloaded into a program without libibumad */
	if (length >= MAD_SIZE && request->data[MAD_CLASS] == CLASS_DIRECTED) {
		pthread_mutex_lock(&lock);
		note(request->data);
		pthread_mutex_unlock(&lock);
	}
	return send(fd, agent, umad, length, timeout_ms, retries);
}
