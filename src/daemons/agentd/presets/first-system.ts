// The preset JSON of the first system, and what it means here: its personas are the nearest of
// ours, `${VAR}` is a required variable, `${VAR:-default}` one with a default.
import * as z from 'zod';
import { AgentName } from '../../../wire/primitives.ts';
import type { Preset } from './preset-schema.ts';

const text = (charsMax: number) => z.string().min(1).max(charsMax);
const id = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'must look like write-tests');

export const FirstSystemPreset = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'must look like bug-triage'),
  description: z.string().max(1_000).optional(),
  agents: z
    .array(
      z.strictObject({
        name: AgentName,
        persona: text(64).optional(),
        instructions: text(32_000).optional(),
      }),
    )
    .min(1)
    .max(50),
  tasks: z
    .array(
      z.strictObject({
        id,
        subject: text(2_000),
        owner: AgentName,
        description: z.string().max(32_000).optional(),
        blocked_by: z.array(id).max(64).optional(),
      }),
    )
    .min(1)
    .max(200),
  mail: z
    .array(z.strictObject({ to: text(64), subject: text(500), body: text(32_000) }))
    .max(100)
    .optional(),
});
type FirstSystemPreset = z.output<typeof FirstSystemPreset>;

/** Personas that do not ship here, and the nearest of those that do. */
const NEAREST: Record<string, string> = {
  analyst: 'researcher',
  architect: 'planner',
  editor: 'writer',
  manager: 'planner',
  ops: 'devops',
  'product-manager': 'planner',
  qa: 'tester',
  security: 'security-auditor',
};
const EVERYBODY = 'all';
const WITH_DEFAULT = /\$\{([A-Z][A-Z0-9_]{0,63})(?::-([^}]*))?\}/g;

export function convertFirstSystem(written: FirstSystemPreset): Preset {
  const variables: NonNullable<Preset['variables']> = {};
  const read = (source: string): string =>
    source.replace(WITH_DEFAULT, (_, name: string, byDefault: string | undefined) => {
      variables[name] = {
        ...variables[name],
        ...(byDefault === undefined ? {} : { default: byDefault }),
      };
      return `\${${name}}`;
    });
  const agents = written.agents.map(({ name, persona, instructions }) => ({
    name,
    ...(persona === undefined ? {} : { persona: NEAREST[persona] ?? persona }),
    ...(instructions === undefined ? {} : { instructions: read(instructions) }),
  }));
  const tasks = written.tasks.map(({ subject, description = '', owner, blocked_by, ...task }) => ({
    ...task,
    goal: read(description === '' ? subject : `${subject}\n\n${description}`),
    agent: owner,
    ...(blocked_by === undefined ? {} : { after: blocked_by }),
  }));
  const mail = (written.mail ?? []).flatMap(({ to, subject, body }) =>
    (to === EVERYBODY ? agents.map(({ name }) => name) : [to as AgentName]).map((name) => ({
      to: name,
      subject: read(subject),
      body: read(body),
    })),
  );
  return {
    apiVersion: 'agentd/v1',
    kind: 'Preset',
    metadata: { name: written.name, description: written.description || written.name },
    variables,
    agents,
    tasks,
    mail,
  };
}
