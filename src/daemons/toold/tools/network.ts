// network.request: requests one more host for this run. Every call needs approval; the broker
// stores the approved host and opens the egress.

import * as z from 'zod';
import { sha256Hex } from '../../../platform/json.ts';
import { type ParseOutcome, parseHost } from '../../../policy/hosts.ts';
import { fault } from '../../../wire/errors.ts';
import type { ApprovalId } from '../../../wire/primitives.ts';
import { type Tool, type ToolContext, tool } from './tool.ts';

export type HostOrder = { host: string; port: number; approvalId: ApprovalId };
/** Stores the approved host and opens the egress. Resolves to what the run may send there. */
export type OpenHost = (
  context: ToolContext,
  order: HostOrder,
) => Promise<{ isOpen: boolean; onlyReads: boolean }>;

const HTTPS_PORT = 443;
/** Names with a meaning only on one network or one machine. */
const PRIVATE = /(^|\.)(localhost|local|localdomain|internal|intranet|private|corp|home|lan|arpa)$/;

function parsePublicName(written: string): ParseOutcome<string> {
  const host = parseHost(written);
  if ('problem' in host) return host;
  const { name, ip } = host.value;
  if (ip !== undefined) return { problem: 'it is an address; only names can be requested' };
  if (!name.includes('.') || PRIVATE.test(name))
    return {
      problem: 'it is a name of a private network; the operator can list it in the manifest',
    };
  return { value: name };
}

const PublicHost = z
  .string()
  .min(1)
  .max(253)
  .transform((written, context) => {
    const name = parsePublicName(written);
    if ('value' in name) return name.value;
    context.addIssue({ code: 'custom', message: name.problem });
    return z.NEVER;
  })
  .describe('a name such as docs.example.com, no address and no URL');

export function networkTools(open: OpenHost): Tool[] {
  const request = tool({
    name: 'network.request',
    description:
      'Ask a person to let you reach one more host, for the rest of this run. Say exactly what ' +
      'you need it for: they see host, port and reason, and may refuse. Then use http.fetch or a ' +
      'command as usual.',
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: true,
    level: 'L0',
    approval: 'required',
    timeoutMs: 30_000,
    callsPerRunMax: 32,
    rollback:
      'It ends with the run. A forbid about the host in the rules of the site ends it at once.',
    input: z.strictObject({
      host: PublicHost,
      port: z.int().min(1).max(65_535).default(HTTPS_PORT),
      reason: z.string().min(1).max(1_000).describe('what it is needed for'),
    }),
    output: z.object({
      host: z.string(),
      port: z.int(),
      only_reads: z.boolean().describe('only plain GET and HEAD: you have read text from outside'),
    }),
    // A permit for one host must not cover another.
    describeAction: ({ host, port }) => {
      const target = `${host}:${port}`;
      return `network.request ${target.length <= 48 ? target : sha256Hex(target).slice(0, 48)}`;
    },
    // Decided as if granted, so that a forbidden host is denied without asking a person.
    touches: ({ host, port }) => [{ action: 'net.connect', host, port, granted: true }],
    preview: async ({ host, port, reason }) =>
      `let this run reach ${host}:${port}\nwhy: ${reason}\n`,
    async perform({ host, port }, context) {
      const { approvalId } = context;
      if (approvalId === undefined)
        throw fault('denied', `${host}:${port} is not approved for this run`);
      const { isOpen, onlyReads } = await open(context, { host, port, approvalId });
      if (!isOpen)
        throw fault('denied', `a rule of this site forbids ${host} in some circumstances`, {
          hint: 'Continue without it. An operator can change the rule.',
        });
      return { result: { host, port, only_reads: onlyReads } };
    },
  });
  return [request];
}
