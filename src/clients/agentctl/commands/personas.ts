// agentctl persona list and show.
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { replaceControls } from '../show/plain.ts';
import { renderProblem } from '../show/problem.ts';
import { renderFields, renderTable } from '../show/table.ts';

const HEADERS = [
  { title: 'PERSONA' },
  { title: 'ROLE', minWidth: 8 },
  { title: 'FROM', minWidth: 8 },
  { title: 'AGENTS', minWidth: 8 },
  { title: 'PURPOSE', minWidth: 10 },
] as const;

/** As manifests name it: a role without its folder. */
const shorten = (ref: string): string => ref.replace(/^roles\//, '');

export async function list({ out, runtime }: Session): Promise<void> {
  const answer = await runtime().call('agentd', 'listPersonas', {});
  out.print(answer, () => [
    ...renderTable(
      HEADERS,
      answer.personas.map(({ ref, role, purpose, sources, agents }) => [
        shorten(ref),
        role ?? '',
        sources.join(' + '),
        agents.join(', ') || '–',
        purpose ?? '',
      ]),
      out,
    ),
    ...answer.problems.flatMap((problem) => renderProblem(problem, out.paint)),
  ]);
}

export async function show(session: Session): Promise<void> {
  const name = session.args.positionals[0];
  const agent = session.args.text('agent');
  if (agent !== undefined && name === undefined) return showAgent(session, agent);
  if (name === undefined || agent !== undefined)
    throw fault('bad_usage', 'persona show needs the name of a persona, or --agent', {
      hint: 'For example: agentctl persona show coder, or: agentctl persona show --agent coder',
    });
  const { out, args, runtime } = session;
  const [kind, of] = readRef(name);
  const answer = await runtime().call('agentd', 'getPersona', { params: { kind, name: of } });
  const { persona, layers } = answer;
  out.print(answer, () => [
    ...renderFields(
      [
        ['persona', shorten(persona.ref)],
        ['role', persona.role ?? ''],
        ['purpose', persona.purpose ?? ''],
        ['tools', persona.tools.join(', ') || 'none'],
        ['extends', persona.extends.join(', ')],
        ['agents', persona.agents.join(', ') || 'none'],
        ...(args.flag('layers') ? [] : describeFiles(layers)),
      ],
      out.paint,
      out.columns,
    ),
    '',
    ...(args.flag('layers') ? renderLayers(layers) : renderText(layers.map(textOf).join('\n\n'))),
  ]);
}

type Kind = 'base' | 'groups' | 'roles' | 'scopes' | 'agents';

function readRef(written: string): [kind: Kind, name: string] {
  if (written === 'base') return ['base', 'base'];
  const [folder, name] = written.includes('/') ? written.split('/') : ['roles', written];
  const kinds: readonly string[] = ['groups', 'roles', 'scopes', 'agents'];
  if (!kinds.includes(folder!) || !/^[a-z][a-z0-9_-]{0,62}$/.test(name ?? ''))
    throw fault('bad_usage', `invalid persona '${written}'`, {
      hint: 'Write it as in agentctl persona list: coder, groups/night, base.',
    });
  return [folder as Kind, name!];
}

type Layer = { layer: string; source: string; file: string; sha256: string; text: string | null };

const textOf = ({ text }: Layer): string =>
  text ?? '(this file has changed since; the change is not in force: agentctl persona list)';

const renderText = (text: string): string[] => text.split('\n').map(replaceControls);

const describeFiles = (layers: readonly Layer[]): [string, string][] =>
  layers.map(({ file }, i) => [i === 0 ? 'files' : '', file]);

function renderLayers(layers: readonly Layer[]): string[] {
  return layers.flatMap((layer) => [
    `── ${shorten(layer.layer)} · ${layer.source} · ${layer.file} · sha256 ${layer.sha256.slice(0, 12)}…`,
    ...renderText(textOf(layer)),
    '',
  ]);
}

async function showAgent({ args, out, runtime }: Session, name: string): Promise<void> {
  const params = { name };
  const answer = await runtime().call('agentd', 'getAgentPersona', { params });
  const { layers } = answer;
  out.print(answer, () => [
    ...renderFields(
      [
        ['agent', answer.agent],
        ['role', answer.role ?? ''],
        ['purpose', answer.purpose ?? ''],
        ['layers', layers.map(({ layer, source }) => `${shorten(layer)} (${source})`).join(', ')],
        ['sha256', answer.sha256],
      ],
      out.paint,
      out.columns,
    ),
    '',
    ...(args.flag('layers') ? renderLayers(layers) : renderText(answer.text)),
  ]);
}
