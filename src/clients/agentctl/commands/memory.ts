// agentctl memory remember, propose, search, show, list, history and rebuild.
import { fault } from '../../../wire/errors.ts';
import type { MemoryView, NewMemory, RecalledMemory } from '../../../wire/memoryd/records.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { Args, Session } from '../command.ts';
import { readTextArgument } from '../input.ts';
import type { Out } from '../out.ts';
import { readTime } from '../read-amounts.ts';
import { pluralize } from '../show/amounts.ts';
import { renderList, renderMemory, renderRecalled, renderVersion } from '../show/memory.ts';

const IMPORTANCE_MAX = 100;

type MemoryOptions = Omit<NewMemory, 'class' | 'scope' | 'text'>;

/** Reads the options that describe a text. */
export function readAbout(args: Args): MemoryOptions {
  const nowMs = Date.now();
  const time = (name: string, direction: 'ago' | 'ahead') => {
    const text = args.text(name);
    return text === undefined ? undefined : readTime(text, nowMs, direction);
  };
  const importance = args.number('importance');
  const marks = args.list('mark') as Label[];
  const about: MemoryOptions = {
    ref: args.text('ref'),
    speaker: args.text('speaker'),
    occurred_at: time('at', 'ago'),
    valid_from: time('valid-from', 'ago'),
    valid_to: time('valid-to', 'ahead'),
    expires_at: time('expires', 'ahead'),
    importance: importance === undefined ? undefined : importance / IMPORTANCE_MAX,
    labels: marks.length === 0 ? undefined : marks,
  };
  return Object.fromEntries(Object.entries(about).filter(([, value]) => value !== undefined));
}

function readMemory(args: Args): NewMemory {
  const [scope, text] = args.positionals as [string, string];
  const supersedes = args.list('replaces') as MemoryView['id'][];
  return {
    class: (args.text('class') ?? 'semantic') as NewMemory['class'],
    scope,
    text: readTextArgument(text),
    ...readAbout(args),
    ...(supersedes.length === 0 ? {} : { supersedes }),
  };
}

export async function remember({ args, out, runtime }: Session): Promise<void> {
  const body = readMemory(args);
  const { memory } = await runtime().call('memoryd', 'remember', { body }, { idempotent: true });
  const isProposed = memory.status === 'proposed';
  out.print({ memory }, () => [
    memory.id,
    ...(isProposed ? [`Proposed, because a rule asks a person first. ${hintAt(memory)}`] : []),
  ]);
}

export async function propose({ args, out, runtime }: Session): Promise<void> {
  const body = readMemory(args);
  const { memory } = await runtime().call(
    'memoryd',
    'proposeMemory',
    { body },
    { idempotent: true },
  );
  out.print({ memory }, () => [memory.id, hintAt(memory)]);
}

const hintAt = ({ id }: MemoryView): string => `To accept it: agentctl memory approve ${id}`;

export async function search({ args, out, runtime }: Session): Promise<void> {
  const [agent, query] = args.positionals as [string, string];
  const scopes = [...args.list('scope')];
  const asOf = args.text('as-of');
  const maxTokens = args.number('max-tokens');
  const explain = args.flag('explain');
  const body = {
    agent,
    query: readTextArgument(query),
    limit: args.number('limit') ?? 10,
    ...(scopes.length === 0 ? {} : { scopes }),
    ...(asOf === undefined ? {} : { as_of: readTime(asOf, Date.now(), 'ago') }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(explain ? { explain } : {}),
  };
  const answer = await runtime().call('memoryd', 'recall', { body });
  out.print(answer, () => [
    ...renderFound(answer.memories, out),
    ...(answer.words_only === undefined
      ? []
      : [`Searched by words only, without vectors: ${answer.words_only}`]),
    ...(answer.rehearsal === true ? ['The rehearsal made the vectors.'] : []),
  ]);
}

function renderFound(memories: readonly RecalledMemory[], out: Out): string[] {
  if (memories.length === 0) return ['No memories.'];
  return [
    ...memories.flatMap((memory) => [...renderRecalled(memory, out), '']),
    pluralize(memories.length, 'memory', 'memories'),
  ];
}

export async function show({ args, out, runtime }: Session): Promise<void> {
  const version = args.number('version');
  const answer = await runtime().call('memoryd', 'getMemory', {
    params: { id: args.positionals[0]! as MemoryView['id'] },
    query: version === undefined ? {} : { version },
  });
  out.print(answer, () => renderMemory(answer.memory, out));
}

export async function rebuild({ out, runtime }: Session): Promise<void> {
  const answer = await runtime().call('memoryd', 'rebuildMemory', {}, { deadlineMs: 900_000 });
  out.print(answer, () => [
    `Applied ${pluralize(answer.applied, 'operation')} of the journal.`,
    ...answer.problems.map(
      ({ day, line }) => `journals/${day}.jsonl:${line} is damaged; its operation is lost`,
    ),
  ]);
}

/** Classes that other daemons keep. They are asked with the caller's own key; memoryd is not. */
const VIEWS: Readonly<Record<string, (session: Session) => Promise<unknown>>> = {
  artifact: async (session) => (await import('./artifacts.ts')).printArtifacts(session),
  async audit({ args, out, runtime }) {
    const { printNewest } = await import('./audit-read.ts');
    return printNewest(runtime(), out, { lines: args.number('limit') ?? 50 });
  },
};

export async function list(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const view = VIEWS[args.text('class') ?? ''];
  if (view !== undefined) {
    if (args.text('scope') !== undefined || args.text('status') !== undefined)
      throw fault('bad_usage', `the class ${args.text('class')} has no scopes and no status`, {
        hint: 'Leave out --scope and --status.',
      });
    await view(session);
    return;
  }
  const query = {
    scope: args.text('scope'),
    class: args.text('class') as MemoryView['class'] | undefined,
    status: args.text('status') as MemoryView['status'] | undefined,
    cursor: args.text('cursor'),
    limit: args.number('limit') ?? 50,
  };
  const answer = await runtime().call('memoryd', 'listMemories', { query });
  out.print(answer, () => [
    ...(answer.memories.length === 0 ? ['No memories.'] : renderList(answer.memories, out)),
    ...(answer.cursor === null ? [] : [`More: --cursor ${answer.cursor}`]),
  ]);
}

export async function history({ args, out, runtime }: Session): Promise<void> {
  const params = { id: args.positionals[0]! as MemoryView['id'] };
  const answer = await runtime().call('memoryd', 'memoryHistory', { params });
  out.print(answer, () => answer.versions.flatMap((version) => renderVersion(version, out)));
}
