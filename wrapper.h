/* What of OpenSM the plugin sees. */

/* First, always: it decides the layout of everything behind it. Without it a plugin builds, loads
 * and reads the wrong fields, and the version string does not show it. */
#include <opensm/osm_config.h>

#include <iba/ib_types.h>
#include <complib/cl_qmap.h>
#include <opensm/osm_version.h>
#include <opensm/osm_log.h>
#include <opensm/osm_opensm.h>
#include <opensm/osm_event_plugin.h>
#include <opensm/osm_mcast_tbl.h>
#include <opensm/osm_mcm_port.h>
#include <opensm/osm_multicast.h>
#include <opensm/osm_node.h>
#include <opensm/osm_port.h>
#include <opensm/osm_subnet.h>
#include <opensm/osm_switch.h>
#include <opensm/osm_ucast_cache.h>
