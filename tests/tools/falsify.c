/*
 * falsify - makes single nodes lie to OpenSM, not answer, or refuse.
 *
 *   FALSIFY_ORDERS=FILE LD_PRELOAD="falsify.so libumad2sim.so" opensm ...
 *
 * Stands between OpenSM and the adapter, and changes answers to SMPs as OpenSM receives them. The nodes
 * themselves are not changed: without this library they answer the truth.
 *
 * FILE holds all orders in force, one per line. It is read again whenever it is replaced: write another
 * file and rename it, and the new orders apply from the next MAD on. Without FILE, or with an empty one,
 * everybody tells the truth. FILE.seen gets a copy of each line when that line first changes something.
 *
 *   NODE FIELD PORT VALUE                     answers state VALUE in FIELD
 *   NODE lose get|set ATTRIBUTE PORT SHARE    SHARE percent of these requests time out
 *   NODE refuse get|set ATTRIBUTE PORT STATUS these requests are answered with that error status
 *
 * NODE is a node GUID. PORT is the attribute modifier, for a switch's SL2VL (in port << 8 | out port), or *.
 * FIELD is one of the table below, or desc (NodeDescription) or sl2vl with bytes in hex.
 * ATTRIBUTE is a name of the other table, a number, or *. Numbers are as in C. A request times out only
 * after all its retries, so SHARE is the share that fails after these; a pseudo-random sequence that
 * restarts when FILE is read selects them. A Set that is lost or refused never takes place.
 *
 * A directed route does not name its destination. NodeInfo does: each true answer maps its route to a node
 * GUID, and each true PortInfo maps LIDs to that GUID. OpenSM asks for NodeInfo first.
 *
 * cc -O2 -shared -fPIC -o falsify.so falsify.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* An SMP, by offset. */
#define MAD_SIZE 256
#define MAD_CLASS 1
#define MAD_METHOD 3
#define MAD_STATUS 4
#define SMP_HOPS 7
#define MAD_TID 8
#define MAD_ATTRIBUTE 16
#define MAD_MODIFIER 20
#define SMP_DATA 64
#define SMP_PATH 128
#define DATA_SIZE 64

#define CLASS_LID 0x01
#define CLASS_DIRECTED 0x81
#define GET 0x01
#define SET 0x02
#define RESPONSE 0x81
#define DIRECTION 0x8000 /* of the status of an SMP by directed route */

#define NODE_DESC 0x10
#define NODE_INFO 0x11
#define SWITCH_INFO 0x12
#define PORT_INFO 0x15
#define SL2VL 0x17
#define ANY 0xffffffff

/* What can be falsified: the attribute, the first bit of its data and the number of bits. */
static const struct field {
	const char *name;
	unsigned attribute, bit, bits;
} fields[] = {
	{ "type", NODE_INFO, 16, 8 },      { "nports", NODE_INFO, 24, 8 },
	{ "guid", NODE_INFO, 96, 64 },     { "pguid", NODE_INFO, 160, 64 },
	{ "lincap", SWITCH_INFO, 0, 16 },  { "mcap", SWITCH_INFO, 32, 16 },
	{ "lintop", SWITCH_INFO, 48, 16 }, { "lid", PORT_INFO, 128, 16 },
	{ "cap", PORT_INFO, 160, 32 },     { "width", PORT_INFO, 248, 8 },
	{ "state", PORT_INFO, 260, 4 },    { "lmc", PORT_INFO, 277, 3 },
	{ "speed", PORT_INFO, 280, 4 },    { "vlcap", PORT_INFO, 296, 4 },
	{ "highcap", PORT_INFO, 312, 8 },  { "lowcap", PORT_INFO, 320, 8 },
	{ "mtucap", PORT_INFO, 332, 4 },   { "opvls", PORT_INFO, 344, 4 },
	{ "desc", NODE_DESC, 0, 512 },     { "sl2vl", SL2VL, 0, 64 },
};
static const struct {
	const char *name;
	unsigned attribute;
} attributes[] = {
	{ "*", ANY },         { "nodedesc", NODE_DESC }, { "nodeinfo", NODE_INFO }, { "switchinfo", SWITCH_INFO },
	{ "guidinfo", 0x14 }, { "portinfo", PORT_INFO }, { "pkeys", 0x16 },         { "sl2vl", SL2VL },
	{ "vlarb", 0x18 },    { "lft", 0x19 },           { "mft", 0x1b },           { "sminfo", 0x20 },
};
#define COUNT(table) (sizeof(table) / sizeof(*(table)))

struct order {
	struct order *next;
	enum { FALSIFY, LOSE, REFUSE } kind;
	uint64_t node;
	unsigned method, attribute, modifier; /* method 0: any */
	const struct field *field;
	uint8_t value[DATA_SIZE]; /* from the field's first bit on */
	unsigned number;	  /* share or status */
	uint64_t random;
	int seen;
	char line[300];
};
/* A directed route and the node at its end. */
struct route {
	struct route *next;
	uint64_t node;
	unsigned hops;
	uint8_t path[64];
};
/* A pending Set. One that must not take effect was sent as a Get. */
struct set {
	struct set *next;
	uint32_t tid;
	int spoilt;
	struct order order;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct order *orders;
static struct route *routes;
static struct set *sets;
static uint64_t lids[0xc000];

static void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort(); /* preloaded into a program without libibumad */
	return found;
}

static void *allocate(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		abort();
	return p;
}

static unsigned get16(const uint8_t *at)
{
	return at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static uint64_t get64(const uint8_t *at)
{
	return (uint64_t)get32(at) << 32 | get32(at + 4);
}

/* Copies bits, the most significant one first. */
static void put_bits(uint8_t *data, unsigned first, const uint8_t *value, unsigned bits)
{
	for (unsigned i = 0; i < bits; i++) {
		unsigned at = first + i, bit = value[i / 8] >> (7 - i % 8) & 1;

		data[at / 8] &= ~(0x80 >> at % 8);
		data[at / 8] |= bit << (7 - at % 8);
	}
}

/* With an invalid order a test could pass that tests nothing. */
static void misread(const char *line)
{
	fprintf(stderr, "falsify: cannot read the order: %s\n", line);
	abort();
}

static uint64_t number(const char *word, const char *line)
{
	char *end;
	uint64_t n = strtoull(word, &end, 0);

	if (*end || end == word)
		misread(line);
	return n;
}

static struct order *parse(const char *line)
{
	struct order *order = allocate(sizeof(*order));
	char node[64], what[64], word[4][160];
	int n = sscanf(line, "%63s %63s %159s %159s %159s %159s", node, what, word[0], word[1], word[2], word[3]);
	int changes = !strcmp(what, "lose") || !strcmp(what, "refuse");
	const char *port = word[changes ? 2 : 0];

	order->node = n > 0 ? number(node, line) : 0;
	if (!order->node || n != (changes ? 6 : 4))
		misread(line);
	snprintf(order->line, sizeof(order->line), "%s", line);
	order->modifier = strcmp(port, "*") ? number(port, line) : ANY;
	if (changes) {
		unsigned i = 0;

		order->kind = *what == 'l' ? LOSE : REFUSE;
		order->method = !strcmp(word[0], "get") ? GET : !strcmp(word[0], "set") ? SET : 0;
		while (i < COUNT(attributes) && strcmp(attributes[i].name, word[1]))
			i++;
		order->attribute = i < COUNT(attributes) ? attributes[i].attribute : number(word[1], line);
		order->number = number(word[3], line);
		order->random = 0x9e3779b97f4a7c15; /* any but 0 */
		if (!order->method)
			misread(line);
		return order;
	}
	for (const struct field *f = fields; f < fields + COUNT(fields); f++)
		if (!strcmp(f->name, what))
			order->field = f;
	if (!order->field)
		misread(line);
	order->attribute = order->field->attribute;
	if (order->attribute == NODE_DESC || order->attribute == SL2VL) {
		unsigned byte, length = strlen(word[1]);

		if (length % 2 || length > order->field->bits / 4)
			misread(line);
		for (unsigned i = 0; i < length / 2; i++)
			if (sscanf(word[1] + 2 * i, "%2x", &byte) == 1)
				order->value[i] = byte;
			else
				misread(line);
	} else {
		uint64_t value = number(word[1], line);

		if (order->field->bits < 64 && value >> order->field->bits)
			misread(line);
		value = htobe64(value << (64 - order->field->bits));
		memcpy(order->value, &value, sizeof(value));
	}
	return order;
}

/* Reads the orders if they were replaced since the last time. */
static void refresh(void)
{
	static struct timespec modified;
	static ino_t inode;
	static int known;
	const char *name = getenv("FALSIFY_ORDERS");
	struct stat now = { 0 };
	char line[300];
	struct order *order;
	FILE *file;

	if (name)
		stat(name, &now);
	if (known && now.st_ino == inode && now.st_mtim.tv_sec == modified.tv_sec &&
	    now.st_mtim.tv_nsec == modified.tv_nsec)
		return;
	known = 1;
	inode = now.st_ino;
	modified = now.st_mtim;
	while ((order = orders)) {
		orders = order->next;
		free(order);
	}
	file = name ? fopen(name, "r") : NULL;
	if (!file)
		return;
	/* The first line for a field is applied last, so it decides. */
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (!*line || *line == '#')
			continue;
		order = parse(line);
		order->next = orders;
		orders = order;
	}
	fclose(file);
}

static void see(struct order *order)
{
	char name[4096];
	FILE *file;

	if (order->seen)
		return;
	order->seen = 1;
	snprintf(name, sizeof(name), "%s.seen", getenv("FALSIFY_ORDERS"));
	file = fopen(name, "a");
	if (file) {
		fprintf(file, "%s\n", order->line);
		fclose(file);
	}
}

static int is_smp(const uint8_t *mad, int length)
{
	return length >= MAD_SIZE && (mad[MAD_CLASS] == CLASS_LID || mad[MAD_CLASS] == CLASS_DIRECTED);
}

/* The node at the end of a directed route; adds the route if it is new. */
static uint64_t *by_route(const uint8_t *mad)
{
	unsigned hops = mad[SMP_HOPS] < 64 ? mad[SMP_HOPS] : 63;
	struct route *r;

	for (r = routes; r; r = r->next)
		if (r->hops == hops && !memcmp(r->path + 1, mad + SMP_PATH + 1, hops))
			return &r->node;
	r = allocate(sizeof(*r));
	r->hops = hops;
	memcpy(r->path + 1, mad + SMP_PATH + 1, hops);
	r->next = routes;
	routes = r;
	return &r->node;
}

/* The GUID of the node that a request goes to or an answer comes from; 0: not known yet. */
static uint64_t *node_of(const struct ib_user_mad *umad)
{
	static uint64_t nobody;
	unsigned lid = be16toh(umad->addr.lid);

	if (umad->data[MAD_CLASS] == CLASS_DIRECTED)
		return by_route(umad->data);
	return lid < COUNT(lids) ? &lids[lid] : &nobody;
}

static int concerns(const struct order *order, uint64_t node, const uint8_t *mad)
{
	return order->node == node && (order->attribute == ANY || order->attribute == get16(mad + MAD_ATTRIBUTE)) &&
	       (order->modifier == ANY || order->modifier == (get32(mad + MAD_MODIFIER) & 0x7fffffff));
}

/* The order by which a request of this method is lost or refused. */
static struct order *spoils(uint64_t node, const uint8_t *mad, unsigned method)
{
	for (struct order *order = orders; order; order = order->next) {
		if (order->kind == FALSIFY || order->method != method || !concerns(order, node, mad))
			continue;
		if (order->kind == LOSE) {
			/* xorshift64; its low bits are the weak ones */
			order->random ^= order->random << 13;
			order->random ^= order->random >> 7;
			order->random ^= order->random << 17;
			if ((order->random >> 32) % 100 >= order->number)
				continue;
		}
		see(order);
		return order;
	}
	return NULL;
}

/* Turns an answer into what the order says. A request that times out comes back as it was sent. */
static void spoil(const struct order *order, struct ib_user_mad *umad)
{
	unsigned status = get16(umad->data + MAD_STATUS) & DIRECTION;

	if (order->kind == LOSE) {
		umad->status = ETIMEDOUT;
		umad->data[MAD_METHOD] = order->method;
		status = 0;
	} else {
		status |= order->number;
	}
	umad->data[MAD_STATUS] = status >> 8;
	umad->data[MAD_STATUS + 1] = status;
}

/* The Set that an answer belongs to; a Get is not remembered. */
static struct set *take(const uint8_t *mad)
{
	uint32_t tid = get32(mad + MAD_TID + 4);

	for (struct set **at = &sets, *set; (set = *at); at = &set->next)
		if (set->tid == tid) {
			*at = set->next;
			return set;
		}
	return NULL;
}

/* Learns from a true answer, and falsifies it. */
static void answer(struct ib_user_mad *umad)
{
	uint8_t *mad = umad->data, *data = mad + SMP_DATA;
	uint64_t *node = node_of(umad);
	unsigned attribute = get16(mad + MAD_ATTRIBUTE);
	struct set *set;
	int true_answer = !(get16(mad + MAD_STATUS) & ~DIRECTION);
	struct order *order;

	if (true_answer && attribute == NODE_INFO && mad[MAD_CLASS] == CLASS_DIRECTED)
		*node = get64(data + 12);
	if (true_answer && attribute == PORT_INFO && *node) {
		unsigned lid = get16(data + 16), count = 1 << (data[34] & 7);

		for (unsigned i = lid; lid && i < lid + count && i < COUNT(lids); i++)
			lids[i] = *node;
	}
	set = take(mad);
	order = !set ? spoils(*node, mad, GET) : set->spoilt ? &set->order : NULL;
	if (order)
		spoil(order, umad);
	free(set);
	if (order)
		return;
	for (order = orders; order; order = order->next)
		if (order->kind == FALSIFY && concerns(order, *node, mad)) {
			put_bits(data, order->field->bit, order->value, order->field->bits);
			see(order);
		}
}

/* An unanswered request, as it was sent, except for our changes. */
static void came_back(struct ib_user_mad *umad)
{
	struct set *set = take(umad->data);

	if (set)
		umad->data[MAD_METHOD] = SET;
	free(set);
}

int umad_send(int fd, int agent, void *umad, int length, int timeout_ms, int retries)
{
	int (*send)(int, int, void *, int, int, int) =
		(int (*)(int, int, void *, int, int, int))next("umad_send");
	struct ib_user_mad *request = umad;
	struct order *order;
	struct set *set;
	int result, spoilt = 0;

	pthread_mutex_lock(&lock);
	refresh();
	if (is_smp(request->data, length) && request->data[MAD_METHOD] == SET) {
		set = allocate(sizeof(*set));
		set->tid = get32(request->data + MAD_TID + 4);
		order = spoils(*node_of(request), request->data, SET);
		if (order) {
			set->spoilt = spoilt = 1;
			set->order = *order;
		}
		set->next = sets; /* before the answer can arrive */
		sets = set;
	}
	pthread_mutex_unlock(&lock);
	if (!spoilt)
		return send(fd, agent, umad, length, timeout_ms, retries);
	request->data[MAD_METHOD] = GET;
	result = send(fd, agent, umad, length, timeout_ms, retries);
	request->data[MAD_METHOD] = SET;
	return result;
}

int umad_recv(int fd, void *umad, int *length, int timeout_ms)
{
	int (*recv)(int, void *, int *, int) = (int (*)(int, void *, int *, int))next("umad_recv");
	struct ib_user_mad *got = umad;
	int result = recv(fd, umad, length, timeout_ms);

	if (result < 0 || !is_smp(got->data, *length) || (!got->status && got->data[MAD_METHOD] != RESPONSE))
		return result;
	pthread_mutex_lock(&lock);
	refresh();
	if (got->status)
		came_back(got);
	else
		answer(got);
	pthread_mutex_unlock(&lock);
	return result;
}
