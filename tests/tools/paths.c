/*
 * paths - repeatedly asks the SA for PathRecords and checks the SL of each.
 *
 *   paths FILE COUNT
 *   paths FILE
 *
 * FILE has lines "SLID DLID MASK": the SLs that may be assigned to the pair, bit n for SL n, in hex. Asks
 * COUNT times, cycling through the lines, one query at a time, and prints
 *   answered N wrong N none N silent N
 * none: the SA says that there is no path; silent: no answer for a minute, so that a sweep of a busy machine
 * may take its time after a cut. The first wrong ones are named before. Without COUNT it goes through the lines
 * once, ignoring MASK, and prints
 *   SLID DLID SL|none|silent
 * for each before that; there silent is no answer for two seconds. Runs over ibsim with umad2sim preloaded.
 *
 * Exit: 0 nothing wrong and nothing silent, 1 otherwise, 2 usage or file trouble.
 *
 * cc -O2 -o paths paths.c -libmad -libumad
 */
#include <errno.h>
#include <infiniband/mad.h>
#include <infiniband/umad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 2000
/* A packet that cannot be delivered, as over a cable that was cut a moment ago, is reported at once by
 * ibsim; so there is a pause between tries. */
#define PAUSE_MS 100
#define PATIENT_S 60
#define BRIEF_S 2
/* Component mask of a PathRecord. */
#define HAS_DLID (1ull << 4)
#define HAS_SLID (1ull << 5)

struct pair {
	unsigned slid, dlid, mask;
};

static struct pair *load(const char *name, size_t *n)
{
	FILE *file = fopen(name, "r");
	struct pair *pairs = NULL, p;
	size_t room = 0;

	*n = 0;
	if (!file)
		return NULL;
	while (fscanf(file, "%u %u %x", &p.slid, &p.dlid, &p.mask) == 3) {
		if (*n == room) {
			room = room ? 2 * room : 1024;
			pairs = realloc(pairs, room * sizeof *pairs);
			if (!pairs)
				exit(2);
		}
		pairs[(*n)++] = p;
	}
	fclose(file);
	return pairs;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* The SL of the PathRecord; -1: there is none; -2: no answer for so many seconds. */
static int ask(struct ibmad_port *port, ib_portid_t *sa, const struct pair *p, double patience)
{
	for (double end = now() + patience; now() < end;) {
		uint8_t buffer[1024] = { 0 };
		ib_sa_call_t call = { .attrid = IB_SA_ATTR_PATHRECORD, .method = IB_MAD_METHOD_GET,
				      .mask = HAS_DLID | HAS_SLID };

		mad_set_field(buffer, 0, IB_SA_PR_DLID_F, p->dlid);
		mad_set_field(buffer, 0, IB_SA_PR_SLID_F, p->slid);
		uint8_t *record = sa_rpc_call(port, buffer, sa, &call, TIMEOUT_MS);

		if (record)
			return mad_get_field(record, 0, IB_SA_PR_SL_F);
		if (errno != ETIMEDOUT)
			return -1;
		usleep(1000 * PAUSE_MS);
	}
	return -2;
}

int main(int argc, char **argv)
{
	int classes[] = { IB_SA_CLASS };
	unsigned long answered = 0, wrong = 0, none = 0, silent = 0, count = 0;
	struct pair *pairs;
	size_t n;
	struct ibmad_port *port;
	umad_port_t own;
	ib_portid_t sa = { .qp = 1, .qkey = IB_DEFAULT_QP1_QKEY };

	if (argc < 2 || argc > 3 || (argc == 3 && !(count = strtoul(argv[2], NULL, 10)))) {
		fprintf(stderr, "usage: paths FILE [COUNT]\n");
		return 2;
	}
	pairs = load(argv[1], &n);
	if (!n) {
		fprintf(stderr, "paths: no pairs in %s\n", argv[1]);
		return 2;
	}
	/* Counts the answers that were errors. */
	madrpc_show_errors(0);
	if (umad_init() < 0 || umad_get_port(NULL, 0, &own) < 0 ||
	    !(port = mad_rpc_open_port(own.ca_name, own.portnum, classes, 1))) {
		fprintf(stderr, "paths: there is no InfiniBand port\n");
		return 2;
	}
	sa.lid = own.sm_lid;
	for (unsigned long i = 0; i < (count ? count : n); i++) {
		const struct pair *p = &pairs[i % n];
		int sl = ask(port, &sa, p, count ? PATIENT_S : BRIEF_S);

		if (!count && sl >= 0)
			printf("%u %u %d\n", p->slid, p->dlid, sl);
		else if (!count)
			printf("%u %u %s\n", p->slid, p->dlid, sl == -1 ? "none" : "silent");
		if (sl == -1) {
			none++;
		} else if (sl == -2) {
			silent++;
		} else {
			answered++;
			if (count && !(p->mask >> sl & 1) && wrong++ < 10)
				printf("%u to %u: SL %d, may be of %04x\n", p->slid, p->dlid, sl,
					p->mask);
		}
	}
	printf("answered %lu wrong %lu none %lu silent %lu\n", answered, wrong, none, silent);
	return wrong || silent;
}
