/*
 * mcjoin - joins ports to an existing multicast group, and removes them from it.
 *
 *   mcjoin join MGID PORT_GUID...
 *   mcjoin leave MGID PORT_GUID...
 *
 * MGID: 32 hexadecimal digits; GUIDs as 0x.... Asks the SA for each port in turn, on behalf of that
 * port, and prints the MLID in the answer.
 *
 * Exit: 0 done, 1 the SA refuses, 2 usage.
 *
 * cc -O2 -o mcjoin mcjoin.c -libmad -libumad
 */
#include <infiniband/mad.h>
#include <infiniband/umad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FULL_MEMBER = 1, LEAVE = 0x15 };
/* Fields of the record that a request uses. */
enum { HAS_MGID = 1 << 0, HAS_PORT = 1 << 1, HAS_STATE = 1 << 16 };

static int usage(void)
{
	fprintf(stderr, "usage: mcjoin join|leave MGID PORT_GUID...\n");
	return 2;
}

static void put64(uint8_t *at, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		at[i] = value >> (56 - 8 * i);
}

int main(int argc, char **argv)
{
	int classes[] = { IB_SMI_CLASS, IB_SMI_DIRECT_CLASS, IB_SA_CLASS };
	struct ibmad_port *port;
	ib_portid_t sa = { 0 };
	uint8_t mgid[16];
	int leave;

	if (argc < 4 || strlen(argv[2]) != 32)
		return usage();
	leave = !strcmp(argv[1], "leave");
	for (int i = 0; i < 16; i++) {
		unsigned byte;

		if (sscanf(argv[2] + 2 * i, "%2x", &byte) != 1)
			return usage();
		mgid[i] = byte;
	}
	port = mad_rpc_open_port(NULL, 0, classes, 3);
	if (!port || ib_resolve_smlid_via(&sa, 2000, port) < 0) {
		fprintf(stderr, "mcjoin: no port or no subnet manager\n");
		return 1;
	}
	sa.qp = 1;
	sa.qkey = IB_DEFAULT_QP1_QKEY;
	for (int i = 3; i < argc; i++) {
		uint8_t record[IB_SA_DATA_SIZE] = { 0 };
		ib_sa_call_t call = { .attrid = IB_SA_ATTR_MCRECORD, .trid = mad_trid() };

		call.method = leave ? LEAVE : IB_MAD_METHOD_SET;
		call.mask = HAS_MGID | HAS_PORT | HAS_STATE;
		memcpy(record, mgid, 16);
		put64(record + 16, 0xfe80000000000000ull);
		put64(record + 24, strtoull(argv[i], NULL, 0));
		record[48] = FULL_MEMBER;
		if (!sa_rpc_call(port, record, &sa, &call, 2000)) {
			fprintf(stderr, "mcjoin: the SA refuses %s\n", argv[i]);
			return 1;
		}
		printf("0x%02x%02x\n", record[36], record[37]);
	}
	mad_rpc_close_port(port);
	return 0;
}
