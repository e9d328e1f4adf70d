/*
 * readback - reads the tables of a subnet back from its switches and adapters.
 *
 *   readback DIR
 *
 * Queries every LID by LID-routed SMPs, through the very tables that it reads, and writes into DIR
 *   opensm-lfts.dump, opensm-sl2vl.dump   byte for byte as OpenSM would write them
 *   opensm.fdbs                           the LFTs as ibdmchk reads them (hops are not known: 00)
 *   opensm.mcfdbs                         the first MFT blocks, byte for byte as OpenSM would write them
 *   op_vls                                0xNODE_GUID PORT OPERATIONAL_VLS CAPABLE_VLS, switch ports that
 *                                         are up; the two numbers are counts of VLs
 *   vlarb                                 0xNODE_GUID PORT low|high VL:WEIGHT ..., switch ports that are up,
 *                                         as many entries as the port has
 * Nothing in them comes from OpenSM's memory. Runs over ibsim with umad2sim preloaded, and would
 * run on a real fabric unchanged. Keeps several requests in flight: a Dragonfly of 264 switches and
 * 1056 adapters takes 71,000 of them.
 *
 * Exit: 0 done, 1 wrong or missing answers from the subnet, 2 usage or file error.
 *
 * cc -O2 -o readback readback.c -libmad -libumad
 */
#include <endian.h>
#include <infiniband/mad.h>
#include <infiniband/umad.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Below ten, the number of datagrams that one of ibsim's sockets queues on older kernels. */
#define WINDOW 8
#define TIMEOUT_MS 200
#define TRIES 4

struct query {
	uint16_t lid; /* 0: the neighbour of our own port, by directed route */
	uint16_t attr;
	uint32_t mod;
	uint8_t answered;
	uint8_t data[IB_SMP_DATA_SIZE];
};

struct node {
	uint16_t lid, top; /* base LID; a switch's LinearFDBTop */
	uint8_t lmc, type, ports;
	uint64_t guid, port_guid;
	char desc[IB_SMP_DATA_SIZE + 1];
	uint8_t *up;  /* by port */
	uint8_t *low, *high; /* by port: entries of its tables of VL arbitration */
	uint8_t *lft; /* by LID, whole blocks */
};

static int port_fd, lid_agent, dr_agent;
/* Transaction id of the next query: never 0, for which libibmad generates one, and never used twice,
 * so that a late answer cannot be mistaken for another. */
static uint32_t transaction = 1;

static void die(int code, const char *form, ...)
{
	va_list args;

	va_start(args, form);
	fprintf(stderr, "readback: ");
	vfprintf(stderr, form, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(code);
}

static void *alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		die(2, "out of memory");
	return p;
}

static void send_query(const struct query *q, unsigned id, void *umad, int own_port)
{
	ib_rpc_t rpc = { .method = IB_MAD_METHOD_GET, .trid = id, .dataoffs = IB_SMP_DATA_OFFS,
			 .datasz = IB_SMP_DATA_SIZE };
	ib_portid_t to = { .lid = q->lid };

	rpc.attr.id = q->attr;
	rpc.attr.mod = q->mod;
	rpc.mgtclass = q->lid ? IB_SMI_CLASS : IB_SMI_DIRECT_CLASS;
	if (!q->lid) {
		to.drpath.cnt = 1;
		to.drpath.p[1] = own_port;
	}
	memset(umad, 0, umad_size() + IB_MAD_SIZE);
	if (mad_build_pkt(umad, &rpc, &to, NULL, NULL) < 0 ||
	    umad_send(port_fd, q->lid ? lid_agent : dr_agent, umad, IB_MAD_SIZE, TIMEOUT_MS, 0) < 0)
		die(1, "cannot send to LID %u", q->lid);
}

/* Sends all n queries, WINDOW of them in flight. The slots of the window are refilled as answers
 * arrive; after TIMEOUT_MS of silence everything in flight is sent again, at most TRIES times. */
static void ask(struct query *q, size_t n, int own_port)
{
	void *umad = alloc(1, umad_size() + IB_MAD_SIZE);
	uint32_t base = transaction;
	size_t flying[WINDOW], next = 0;
	unsigned tries[WINDOW];
	int used[WINDOW] = { 0 }, count = 0;

	transaction += n;
	while (next < n || count) {
		for (int w = 0; w < WINDOW && next < n; w++)
			if (!used[w]) {
				used[w] = 1;
				tries[w] = 1;
				flying[w] = next;
				count++;
				send_query(&q[next], base + next, umad, own_port);
				next++;
			}
		int length = IB_MAD_SIZE;

		if (umad_recv(port_fd, umad, &length, TIMEOUT_MS) >= 0) {
			uint8_t *mad = umad_get_mad(umad);
			size_t id = (uint32_t)mad_get_field64(mad, 0, IB_MAD_TRID_F) - base;

			for (int w = 0; w < WINDOW; w++)
				if (used[w] && flying[w] == id) {
					used[w] = 0;
					count--;
					if (!umad_status(umad) && !(mad_get_field(mad, 0, IB_MAD_STATUS_F) & 0x7fff)) {
						q[id].answered = 1;
						memcpy(q[id].data, mad + IB_SMP_DATA_OFFS, IB_SMP_DATA_SIZE);
					}
				}
			continue;
		}
		for (int w = 0; w < WINDOW; w++) {
			if (!used[w])
				continue;
			if (tries[w]++ < TRIES) {
				send_query(&q[flying[w]], base + flying[w], umad, own_port);
			} else {
				used[w] = 0;
				count--;
			}
		}
	}
	free(umad);
}

static void must(const struct query *q, const char *what)
{
	if (!q->answered)
		die(1, "LID %u does not answer for its %s (modifier %u)", q->lid, what, q->mod);
}

static FILE *create(const char *dir, const char *name)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	file = fopen(path, "w");
	if (!file)
		die(2, "cannot write %s", path);
	return file;
}

static void finish(FILE *file)
{
	if (ferror(file) || fclose(file))
		die(2, "write failed");
}

static const char *type_name(unsigned type)
{
	return type == IB_NODE_SWITCH ? "Switch" : type == IB_NODE_CA ? "Channel Adapter" : "Router";
}

/* OpenSM's order: its maps are keyed by GUIDs in network order. */
static int by_guid(const void *a, const void *b)
{
	uint64_t x = htobe64(((const struct node *)a)->port_guid);
	uint64_t y = htobe64(((const struct node *)b)->port_guid);

	return x < y ? -1 : x > y;
}

/* All end ports that answer between LID 1 and `top`, in OpenSM's order. */
static struct node *discover(unsigned top, size_t *found)
{
	struct query *q = alloc(3 * top, sizeof *q);
	struct node *nodes = alloc(top, sizeof *nodes);
	static const uint16_t attrs[] = { IB_ATTR_NODE_INFO, IB_ATTR_NODE_DESC, IB_ATTR_PORT_INFO };
	size_t n = 0, answers = 0;

	for (unsigned lid = 1; lid <= top; lid++) {
		q[lid - 1].lid = lid;
		q[lid - 1].attr = attrs[0];
	}
	ask(q, top, 0);
	for (size_t i = 0; i < top; i++)
		if (q[i].answered)
			q[answers++] = q[i];
	for (int a = 1; a < 3; a++)
		for (size_t i = 0; i < answers; i++) {
			struct query *to = &q[a * answers + i];

			memset(to, 0, sizeof *to);
			to->lid = q[i].lid;
			to->attr = attrs[a];
			/* Port 0 of a switch; otherwise the port that owns the LID. */
			if (a == 2 && mad_get_field(q[i].data, 0, IB_NODE_TYPE_F) != IB_NODE_SWITCH)
				to->mod = mad_get_field(q[i].data, 0, IB_NODE_LOCAL_PORT_F);
		}
	ask(q + answers, 2 * answers, 0);
	for (size_t i = 0; i < answers; i++) {
		uint8_t *info = q[i].data, *port = q[2 * answers + i].data;
		struct node *node = &nodes[n];

		must(&q[answers + i], "description");
		must(&q[2 * answers + i], "port");
		node->lid = mad_get_field(port, 0, IB_PORT_LID_F);
		if (node->lid != q[i].lid)
			continue; /* another LID of a range of LMC > 0 */
		node->lmc = mad_get_field(port, 0, IB_PORT_LMC_F);
		node->type = mad_get_field(info, 0, IB_NODE_TYPE_F);
		node->ports = mad_get_field(info, 0, IB_NODE_NPORTS_F);
		node->guid = mad_get_field64(info, 0, IB_NODE_GUID_F);
		node->port_guid = mad_get_field64(info, 0, IB_NODE_PORT_GUID_F);
		memcpy(node->desc, q[answers + i].data, IB_SMP_DATA_SIZE);
		n++;
	}
	free(q);
	qsort(nodes, n, sizeof *nodes, by_guid);
	*found = n;
	return nodes;
}

/* LinearFDBTop, the ports' states and the LFT blocks of all switches. */
static void read_switches(struct node *nodes, size_t n, FILE *op_vls)
{
	struct query *q = alloc(n * 256, sizeof *q);
	size_t asked = 0, at = 0;

	for (size_t i = 0; i < n; i++) {
		if (nodes[i].type != IB_NODE_SWITCH)
			continue;
		q[asked++] = (struct query){ .lid = nodes[i].lid, .attr = IB_ATTR_SWITCH_INFO };
		for (unsigned p = 1; p <= nodes[i].ports; p++)
			q[asked++] = (struct query){ .lid = nodes[i].lid, .attr = IB_ATTR_PORT_INFO, .mod = p };
	}
	ask(q, asked, 0);
	for (size_t i = 0; i < n; i++) {
		if (nodes[i].type != IB_NODE_SWITCH)
			continue;
		must(&q[at], "switch info");
		nodes[i].top = mad_get_field(q[at++].data, 0, IB_SW_LINEAR_FDB_TOP_F);
		nodes[i].up = alloc(nodes[i].ports + 1, 1);
		nodes[i].low = alloc(nodes[i].ports + 1, 1);
		nodes[i].high = alloc(nodes[i].ports + 1, 1);
		nodes[i].lft = alloc(nodes[i].top / 64 + 1, 64);
		for (unsigned p = 1; p <= nodes[i].ports; p++, at++) {
			static const unsigned vls[] = { 0, 1, 2, 4, 8, 15 };
			unsigned op = mad_get_field(q[at].data, 0, IB_PORT_OPER_VLS_F);
			unsigned cap = mad_get_field(q[at].data, 0, IB_PORT_VL_CAP_F);

			must(&q[at], "port");
			nodes[i].up[p] = mad_get_field(q[at].data, 0, IB_PORT_STATE_F) > 1;
			nodes[i].low[p] = mad_get_field(q[at].data, 0, IB_PORT_VL_ARBITRATION_LOW_CAP_F);
			nodes[i].high[p] = mad_get_field(q[at].data, 0, IB_PORT_VL_ARBITRATION_HIGH_CAP_F);
			if (nodes[i].up[p])
				fprintf(op_vls, "0x%016" PRIx64 " %u %u %u\n", nodes[i].guid, p,
					op < 6 ? vls[op] : 0, cap < 6 ? vls[cap] : 0);
		}
	}
	free(q);

	size_t blocks = 0;

	for (size_t i = 0; i < n; i++)
		if (nodes[i].type == IB_NODE_SWITCH)
			blocks += nodes[i].top / 64 + 1;
	q = alloc(blocks, sizeof *q);
	at = 0;
	for (size_t i = 0; i < n; i++)
		for (unsigned b = 0; nodes[i].type == IB_NODE_SWITCH && b <= nodes[i].top / 64u; b++)
			q[at++] = (struct query){ .lid = nodes[i].lid, .attr = IB_ATTR_LINEARFORWTBL, .mod = b };
	ask(q, blocks, 0);
	at = 0;
	for (size_t i = 0; i < n; i++)
		for (unsigned b = 0; nodes[i].type == IB_NODE_SWITCH && b <= nodes[i].top / 64u; b++, at++) {
			must(&q[at], "LFT");
			memcpy(nodes[i].lft + 64 * b, q[at].data, 64);
		}
	free(q);
}

static void write_lfts(const struct node *nodes, size_t n, FILE *dump, FILE *fdbs)
{
	const struct node **owner = alloc(0x10000, sizeof *owner);

	for (size_t i = 0; i < n; i++)
		for (unsigned lid = nodes[i].lid; lid < nodes[i].lid + (1u << nodes[i].lmc); lid++)
			owner[lid & 0xffff] = &nodes[i];
	for (size_t i = 0; i < n; i++) {
		const struct node *sw = &nodes[i];

		if (sw->type != IB_NODE_SWITCH)
			continue;
		fprintf(dump, "Unicast lids [0-%u] of switch Lid %u guid 0x%016" PRIx64 " ('%s'):\n", sw->top,
			sw->lid, sw->guid, sw->desc);
		fprintf(fdbs, "dump_ucast_routes: Switch 0x%016" PRIx64 "\nLID    : Port : Hops : Optimal\n", sw->guid);
		for (unsigned lid = 0; lid <= sw->top; lid++) {
			if (sw->lft[lid] > sw->ports)
				continue;
			fprintf(dump, "0x%04x %03u # ", lid, sw->lft[lid]);
			if (owner[lid])
				fprintf(dump, "%s portguid 0x%016" PRIx64 ": '%s'\n", type_name(owner[lid]->type),
					owner[lid]->port_guid, owner[lid]->desc);
			else
				fprintf(dump, "unknown node and type\n");
			fprintf(fdbs, "0x%04X : %03u  : 00   : yes\n", lid, sw->lft[lid]);
		}
		fprintf(dump, "%u lids dumped\n", sw->top);
		fprintf(fdbs, "\n");
	}
	free(owner);
}

static void write_sl2vl(const struct node *nodes, size_t n, FILE *dump)
{
	static const char rule[] = "#--------------------------------------------------------";
	struct query *q = NULL;

	/* One node at a time: its tables are at most 255 x 255. */
	for (size_t i = 0; i < n; i++) {
		const struct node *node = &nodes[i];
		size_t asked = 0;

		q = alloc(node->type == IB_NODE_SWITCH ? node->ports * (node->ports + 1u) : 1, sizeof *q);
		if (node->type == IB_NODE_SWITCH) {
			for (unsigned out = 1; out <= node->ports; out++)
				for (unsigned in = 0; node->up[out] && in <= node->ports; in++)
					q[asked++] = (struct query){ .lid = node->lid, .attr = IB_ATTR_SLVL_TABLE,
								     .mod = in << 8 | out };
		} else {
			q[asked++] = (struct query){ .lid = node->lid, .attr = IB_ATTR_SLVL_TABLE };
		}
		ask(q, asked, 0);
		fprintf(dump, "%s 0x%016" PRIx64 ", base LID %d, \"%s\"\n", type_name(node->type), node->port_guid,
			node->lid, node->desc);
		fprintf(dump, "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15\n%s\n", rule);
		for (size_t a = 0; a < asked; a++) {
			must(&q[a], "SL2VL table");
			fprintf(dump, "%-3u %-3u :", q[a].mod >> 8, q[a].mod & 0xff);
			for (int sl = 0; sl < 16; sl++)
				fprintf(dump, " %-2u", sl % 2 ? q[a].data[sl / 2] & 15 : q[a].data[sl / 2] >> 4);
			fprintf(dump, "\n");
		}
		fprintf(dump, "%s\n\n", rule);
		free(q);
	}
}

/* Blocks 1 and 2 are the low table, 3 and 4 the high one, of 32 entries each. */
static void write_vlarb(const struct node *nodes, size_t n, FILE *file)
{
	for (size_t i = 0; i < n; i++) {
		const struct node *node = &nodes[i];
		struct query *q;
		size_t asked = 0, at = 0;

		if (node->type != IB_NODE_SWITCH)
			continue;
		q = alloc(4 * node->ports, sizeof *q);
		for (unsigned p = 1; p <= node->ports; p++)
			for (unsigned block = 1; node->up[p] && block <= 4; block++)
				if ((block < 3 ? node->low : node->high)[p] > (block - 1) % 2 * 32)
					q[asked++] = (struct query){ .lid = node->lid, .mod = block << 16 | p,
								     .attr = IB_ATTR_VL_ARBITRATION };
		ask(q, asked, 0);
		while (at < asked) {
			unsigned p = q[at].mod & 0xff, high = q[at].mod >> 16 > 2;
			int left = (high ? node->high : node->low)[p];

			fprintf(file, "0x%016" PRIx64 " %u %s", node->guid, p, high ? "high" : "low");
			for (; left > 0; left -= 32, at++) {
				must(&q[at], "VL arbitration");
				for (int e = 0; e < 32 && e < left; e++)
					fprintf(file, " %u:%u", q[at].data[2 * e] & 15, q[at].data[2 * e + 1]);
			}
			fprintf(file, "\n");
		}
		free(q);
	}
}

/* Further groups are ignored: 32 per block. */
#define MFT_BLOCKS 2

static void write_mfts(const struct node *nodes, size_t n, FILE *dump)
{
	for (size_t i = 0; i < n; i++) {
		const struct node *sw = &nodes[i];
		unsigned positions = sw->ports / 16 + 1, asked = 0, begun = 0;
		struct query q[MFT_BLOCKS * 16];

		if (sw->type != IB_NODE_SWITCH)
			continue;
		for (unsigned b = 0; b < MFT_BLOCKS; b++)
			for (unsigned p = 0; p < positions; p++)
				q[asked++] = (struct query){ .lid = sw->lid, .attr = IB_ATTR_MULTICASTFORWTBL,
							     .mod = p << 28 | b };
		ask(q, asked, 0);
		for (unsigned a = 0; a < asked; a++)
			must(&q[a], "MFT");
		for (unsigned m = 0; m < MFT_BLOCKS * 32; m++) {
			unsigned any = 0;

			for (unsigned port = 0; port <= sw->ports; port++) {
				const uint8_t *mask = q[m / 32 * positions + port / 16].data + m % 32 * 2;

				if (!((mask[0] << 8 | mask[1]) >> port % 16 & 1))
					continue;
				if (!begun++)
					fprintf(dump, "\nSwitch 0x%016" PRIx64 "\nLID    : Out Port(s)\n", sw->guid);
				if (!any++)
					fprintf(dump, "0x%04X :", 0xc000 + m);
				fprintf(dump, " 0x%03X ", port);
			}
			if (any)
				fprintf(dump, "\n");
		}
	}
}

int main(int argc, char **argv)
{
	umad_port_t own;
	struct query first = { .lid = 0, .attr = IB_ATTR_SWITCH_INFO };
	struct node *nodes;
	size_t n;
	FILE *lfts, *fdbs, *mcfdbs, *sl2vl, *op_vls, *vlarb;

	if (argc != 2 || argv[1][0] == '-')
		die(2, "usage: readback DIR");
	lfts = create(argv[1], "opensm-lfts.dump");
	fdbs = create(argv[1], "opensm.fdbs");
	mcfdbs = create(argv[1], "opensm.mcfdbs");
	sl2vl = create(argv[1], "opensm-sl2vl.dump");
	op_vls = create(argv[1], "op_vls");
	vlarb = create(argv[1], "vlarb");

	if (umad_init() < 0 || umad_get_port(NULL, 0, &own) < 0)
		die(1, "there is no InfiniBand port");
	port_fd = umad_open_port(own.ca_name, own.portnum);
	lid_agent = umad_register(port_fd, IB_SMI_CLASS, 1, 0, NULL);
	dr_agent = umad_register(port_fd, IB_SMI_DIRECT_CLASS, 1, 0, NULL);
	if (port_fd < 0 || lid_agent < 0 || dr_agent < 0)
		die(1, "cannot open port %d of %s", own.portnum, own.ca_name);

	ask(&first, 1, own.portnum);
	if (!first.answered)
		die(1, "our own port is not cabled to a switch");
	nodes = discover(mad_get_field(first.data, 0, IB_SW_LINEAR_FDB_TOP_F), &n);
	if (!n)
		die(1, "no LID answers");
	read_switches(nodes, n, op_vls);
	write_lfts(nodes, n, lfts, fdbs);
	write_sl2vl(nodes, n, sl2vl);
	write_vlarb(nodes, n, vlarb);
	write_mfts(nodes, n, mcfdbs);
	finish(lfts);
	finish(fdbs);
	finish(mcfdbs);
	finish(sl2vl);
	finish(op_vls);
	finish(vlarb);
	return 0;
}
