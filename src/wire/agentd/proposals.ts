// Proposals of agents about how they work: a skill, or the agent's own layer of its persona. toold
// asks a person with the diff; agentd writes what was accepted.
import * as z from 'zod';

const FILES_MAX = 20;
export const PROPOSED_CHARS_MAX = 100_000;

/** Each part begins with a letter or digit, so that no path leaves the folder or hides in it. */
export const ProposedPath = z
  .string()
  .max(200)
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]*(\/[A-Za-z0-9][A-Za-z0-9._-]*){0,4}$/,
    'must be a relative path such as scripts/check.sh',
  );

export const Proposal = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('persona'), text: z.string().min(1).max(8_000) }),
  z.strictObject({
    kind: z.literal('skill'),
    name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'must be a name such as bake-bread'),
    files: z
      .array(z.strictObject({ path: ProposedPath, text: z.string().max(PROPOSED_CHARS_MAX) }))
      .min(1)
      .max(FILES_MAX),
  }),
]);
export type Proposal = z.infer<typeof Proposal>;

/** `before` is null for a file that is new. */
export const ProposedChange = z.object({
  path: z.string(),
  before: z.string().nullable(),
  after: z.string(),
});
export type ProposedChange = z.infer<typeof ProposedChange>;
