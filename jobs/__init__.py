"""Workshop: takes one composite, talks SNMP, hands back readings."""
