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
});
