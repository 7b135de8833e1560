// egressd's section of agentd.yaml: every field has a safe default, a unit and a limit.
import * as z from 'zod';

export const egressdConfig = z.strictObject({
  /**
   * `host:port` whose address may be private or loopback. Metadata services, link-local and
   * multicast addresses stay refused.
   */
  allow_private: z.array(z.string().min(3).max(270)).max(256).default([]),
  /** Name → address; takes precedence over the resolvers. */
  hosts: z.record(z.string().min(1).max(253), z.string().min(2).max(45)).default({}),
  /** Resolvers as `address` or `address:port`; if empty, the system's. */
  dns_servers: z.array(z.string().min(2).max(60)).max(8).default([]),
  dns_timeout_ms: z.int().min(100).max(60_000).default(5_000),
  connect_timeout_ms: z.int().min(100).max(60_000).default(10_000),
  /** Timeout for a client's request head, or the first bytes of a tunnel. */
  head_timeout_ms: z.int().min(100).max(120_000).default(10_000),
  /** A connection idle in both directions for this long is closed. */
  idle_timeout_ms: z.int().min(100).max(3_600_000).default(300_000),
  /**
   * Hosts such as `packages.example.com` or `*.debian.org` that only serve packages. After text
   * from any other host, a run may still reach these.
   */
  mirrors: z.array(z.string().min(1).max(260)).max(256).default([]),
  connections_per_run_max: z.int().min(1).max(4_096).default(128),
  connections_max: z.int().min(1).max(65_536).default(2_048),
  /** Additional CA certificates for http.fetch (PEM). */
  tls_ca_file: z.string().min(1).max(4_096).optional(),
});
export type EgressdConfig = z.output<typeof egressdConfig>;
