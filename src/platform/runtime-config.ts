// The section `runtime` of agentd.yaml: what concerns all daemons and none of them.
import * as z from 'zod';

export const runtimeConfig = z.strictObject({
  /**
   * The account the daemons run as when agentd is started as root; only the warden stays root. When
   * absent: the account agentd, and where there is none a uid of its own from sandboxd's range.
   */
  user: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'must be the name of an account')
    .optional(),
});
