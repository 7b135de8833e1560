// The section `runtime` of agentd.yaml: settings of the runtime as a whole.
import * as z from 'zod';

export const runtimeConfig = z.strictObject({
  /**
   * The account the daemons run as when agentd is started as root; only the warden stays root.
   * Default: the account agentd; if it does not exist, a uid from sandboxd's range.
   */
  user: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'must be the name of an account')
    .optional(),
  /** Listen on this port of 127.0.0.1 too; `agentctl up --port` takes precedence. */
  port: z.int().min(1).max(65_535).optional(),
  /** Further names in the Host header of requests to the port, for a proxy in front of it. */
  host_names: z
    .array(
      z
        .string()
        .max(253)
        .regex(
          /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/,
          'must be a host name, with a port if not 80 or 443',
        ),
    )
    .max(32)
    .default([]),
});
