// skill.propose and persona.propose: an agent proposes how agents should work, and a person accepts
// the diff or not. Every call asks, whatever policy or permits allow: nobody accepts their own.
import * as z from 'zod';
import { PROPOSED_CHARS_MAX, type Proposal, ProposedPath } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { assertShowable, unifiedDiff } from './diff.ts';
import {
  type AgentdClient,
  forRun,
  type Preview,
  peerOptions,
  type Tool,
  type ToolContext,
  tool,
} from './tool.ts';

const ASKS = {
  risk: 'high',
  reversibility: 'reversible',
  idempotent: true,
  level: 'L0',
  approval: 'required',
  callsPerRunMax: 8,
} as const;

const Why = z.string().min(1).max(1_000).describe('what it improves, for the person who decides');
const Accepted = z.object({ accepted: z.array(z.string()) });

export function proposalTools(agentd: AgentdClient): Tool[] {
  const preview = async (
    proposal: Proposal,
    why: string,
    context: ToolContext,
  ): Promise<Preview> => {
    const body = { ...forRun(context), proposal };
    const { changes, basis } = await agentd.toolPreviewProposal({ body }, peerOptions);
    const diffs = changes.map(({ path, before, after }) =>
      unifiedDiff(before ?? '', after, { from: before === null ? '/dev/null' : path, to: path }),
    );
    const diff = diffs.join('');
    if (diff === '')
      throw fault('bad_request', 'the proposal changes nothing', {
        hint: 'It is like this already; do not propose it.',
      });
    return { text: assertShowable(`why: ${why.replace(/\s+/g, ' ')}\n${diff}`), basis: { basis } };
  };

  const accept = async (proposal: Proposal, context: ToolContext) => {
    const { approvalId, basis } = context;
    if (approvalId === undefined || basis?.basis === undefined)
      throw fault('denied', 'no person has accepted this proposal');
    const body = { ...forRun(context), proposal, basis: basis.basis, approval_id: approvalId };
    const { paths } = await agentd.toolAcceptProposal({ body }, peerOptions);
    return { result: { accepted: paths } };
  };

  const skill = tool({
    name: 'skill.propose',
    description:
      'Propose a new skill, or a change to one: how a kind of task is done well here, as you have ' +
      'found out. Give each new or changed file whole; SKILL.md starts with front matter (name, ' +
      'description: what for and when). A person sees the diff and accepts it or not.',
    ...ASKS,
    rollback: 'Remove or restore the folder in STATE/skills; the diff shows how it was.',
    input: z.strictObject({
      name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'must be a name such as bake-bread'),
      files: z
        .array(z.strictObject({ path: ProposedPath, text: z.string().max(PROPOSED_CHARS_MAX) }))
        .min(1)
        .max(20),
      why: Why,
    }),
    output: Accepted,
    preview: ({ name, files, why }, context) =>
      preview({ kind: 'skill', name, files }, why, context),
    perform: ({ name, files }, context) => accept({ kind: 'skill', name, files }, context),
  });

  const persona = tool({
    name: 'persona.propose',
    description:
      'Propose what you yourself should be told from the next task on, in addition to your role: ' +
      'the whole text of your own layer. It says how to work and grants nothing. A person sees the ' +
      'diff and accepts it or not.',
    ...ASKS,
    rollback: 'Edit or remove STATE/personas/agents/NAME.md; the diff shows how it was.',
    input: z.strictObject({ text: z.string().min(1).max(8_000), why: Why }),
    output: Accepted,
    preview: ({ text, why }, context) => preview({ kind: 'persona', text }, why, context),
    perform: ({ text }, context) => accept({ kind: 'persona', text }, context),
  });

  return [skill, persona];
}
