/*
 * fewer_vls.so - ports with fewer VLs than ibsim gives them.
 *
 * Preloaded into OpenSM: the PortInfo of port FEWER_VLS_PORT of every node states VLCap FEWER_VLS_CAP
 * (1: VL 0, 2: VL 0-1, 3: VL 0-3), and no more operational VLs than that.
 *
 * cc -O2 -shared -fPIC -o fewer_vls.so fewer_vls.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/mad.h>
#include <infiniband/umad.h>
#include <stdlib.h>

int umad_recv(int fd, void *umad, int *length, int timeout_ms)
{
	static int (*next)(int, void *, int *, int);
	const char *port = getenv("FEWER_VLS_PORT"), *cap = getenv("FEWER_VLS_CAP");
	int got;

	if (!next)
		next = (int (*)(int, void *, int *, int))dlsym(RTLD_NEXT, "umad_recv");
	got = next(fd, umad, length, timeout_ms);
	if (got >= 0 && port && cap && !umad_status(umad)) {
		uint8_t *mad = umad_get_mad(umad), *info = mad + IB_SMP_DATA_OFFS;
		unsigned class = mad_get_field(mad, 0, IB_MAD_MGMTCLASS_F), most = atoi(cap);
		/* Bit 31 asks for extended speeds, the low byte is the port. */
		unsigned of_port = mad_get_field(mad, 0, IB_MAD_ATTRMOD_F) & 0xff;

		if ((class == IB_SMI_CLASS || class == IB_SMI_DIRECT_CLASS) &&
		    mad_get_field(mad, 0, IB_MAD_ATTRID_F) == IB_ATTR_PORT_INFO && of_port == (unsigned)atoi(port)) {
			mad_set_field(info, 0, IB_PORT_VL_CAP_F, most);
			if (mad_get_field(info, 0, IB_PORT_OPER_VLS_F) > most)
				mad_set_field(info, 0, IB_PORT_OPER_VLS_F, most);
		}
	}
	return got;
}
