// Implements `agentctl --complete WORD…` (the words typed so far, the last one unfinished): prints
// one candidate per line, with a tab and its description. commands/completion.ts has the scripts.
import type { Command, Completes, Option } from './command.ts';
import type { CommandEnv } from './env.ts';
import { writeOut } from './out.ts';
import { commandsBelow } from './parse.ts';
import { connectRuntime, type RuntimeClient } from './runtime.ts';
import { toOneLine } from './show/plain.ts';
import { truncate } from './show/width.ts';
import { findStateDir } from './state.ts';
import { GLOBAL_OPTIONS } from './table.ts';

type Candidate = readonly [word: string, help?: string];
export type Expected = { fixed: Candidate[]; live: Completes | undefined; state?: string };

export async function complete(words: readonly string[], env: CommandEnv): Promise<number> {
  const { before, partial, lead } = readTyped(words);
  const expected = expect(before, partial);
  const candidates = [...expected.fixed];
  if (expected.live !== undefined) candidates.push(...(await readLive(expected, env)));
  const fitting = candidates.filter(([word]) => word.startsWith(partial));
  const lines = fitting.map(([word, help]) =>
    help === undefined ? `${lead}${word}` : `${lead}${word}\t${truncate(toOneLine(help), 60)}`,
  );
  if (lines.length > 0) writeOut(`${lines.join('\n')}\n`);
  return 0;
}

type Typed = { before: readonly string[]; partial: string; lead: string };

/**
 * Splits `--option=value` into two words. Bash has split it at the `=` already and replaces only
 * the value; other shells replace the whole word, so each candidate starts with `--option=`.
 */
export function readTyped(words: readonly string[]): Typed {
  const isSplit = (i: number) => words[i] === '=' && words[i - 1]?.startsWith('--') === true;
  const typed = words.flatMap((word, i) => {
    if (isSplit(i)) return i === words.length - 1 ? [''] : [];
    const [, option, value] = /^(--[^=]+)=(.*)$/s.exec(word) ?? [];
    return option === undefined ? [word] : [option, value ?? ''];
  });
  const [lead = ''] = /^--[^=]+=/.exec(words.at(-1) ?? '') ?? [];
  return { before: typed.slice(0, -1), partial: typed.at(-1) ?? '', lead };
}

export function expect(before: readonly string[], partial: string): Expected {
  const path: string[] = [];
  let command: Command | undefined;
  let positionalsSeen = 0;
  let pending: Option | undefined;
  let state: string | undefined;
  for (const token of before) {
    const options = [...GLOBAL_OPTIONS, ...(command?.options ?? [])];
    if (pending !== undefined) {
      if (pending.name === 'state') state = token;
      pending = undefined;
    } else if (token.startsWith('-')) {
      const found = options.find(
        ({ name, short }) => token === `--${name}` || token === `-${short}`,
      );
      pending = found?.value === undefined ? undefined : found;
    } else if (command !== undefined && !hasLonger(path, token, positionalsSeen)) {
      positionalsSeen++;
    } else {
      path.push(token);
      command = commandsBelow(path).find((one) => one.path.length === path.length);
    }
  }
  const stated = state === undefined ? {} : { state };
  if (pending !== undefined) return { ...expectChoices(pending.completes), ...stated };
  if (partial.startsWith('-')) {
    const options = [...(command?.options ?? []), ...GLOBAL_OPTIONS];
    return { fixed: options.map(({ name, help }) => [`--${name}`, help]), live: undefined };
  }
  if (command !== undefined) {
    const { positionals = [] } = command;
    const last = positionals.at(-1);
    const next = positionals[positionalsSeen] ?? (last?.many === true ? last : undefined);
    const choices = expectChoices(next?.completes);
    const subcommands = positionalsSeen === 0 ? listNextWords(path) : [];
    return { ...choices, fixed: [...subcommands, ...choices.fixed], ...stated };
  }
  return { fixed: listNextWords(path), live: undefined };
}

/** A command may be the beginning of another, as `backup` is of `backup list`. */
const hasLonger = (path: readonly string[], word: string, positionalsSeen: number): boolean =>
  positionalsSeen === 0 && commandsBelow([...path, word]).length > 0;

function expectChoices(completes: Completes | undefined): Expected {
  if (completes === undefined || typeof completes === 'string')
    return { fixed: [], live: completes };
  return { fixed: completes.map((word) => [word]), live: undefined };
}

function listNextWords(path: readonly string[]): Candidate[] {
  const found = new Map<string, string | undefined>();
  for (const { path: full, help } of commandsBelow(path)) {
    if (full.length === path.length) continue;
    const isLast = full.length === path.length + 1;
    found.set(full[path.length]!, isLast ? help : undefined);
  }
  return [...found].map(([word, help]) => (help === undefined ? [word] : [word, help]));
}

/** Returns nothing on errors: the person is in the middle of typing. */
async function readLive({ live, state }: Expected, env: CommandEnv): Promise<Candidate[]> {
  // The scripts fall back to the shell's own file completion.
  if (live === 'file' || live === 'directory') return [];
  try {
    return await listNames(connectRuntime(findStateDir(state, env)), live);
  } catch {
    return [];
  }
}

async function listNames(
  runtime: RuntimeClient,
  live: Completes | undefined,
): Promise<Candidate[]> {
  const deadlineMs = 2_000;
  switch (live) {
    case 'agent': {
      const { agents } = await runtime.call('agentd', 'listAgents', {}, { deadlineMs });
      return agents.map(({ name, description }) => [name, description]);
    }
    case 'task': {
      const query = { limit: 50 };
      const { tasks } = await runtime.call('agentd', 'listTasks', { query }, { deadlineMs });
      return tasks.map(({ id, status, goal }) => [id, `${status}: ${goal}`]);
    }
    case 'question': {
      const query = { status: 'open', kind: 'question' } as const;
      const { waits } = await runtime.call('agentd', 'listWaits', { query }, { deadlineMs });
      return waits.map(({ id, question }) => [id, question ?? '']);
    }
    case 'approval': {
      const query = { status: 'pending', limit: 50 } as const;
      const answer = await runtime.call('approvald', 'listApprovals', { query }, { deadlineMs });
      return answer.approvals.map(({ id, agent, summary }) => [id, `${agent}: ${summary}`]);
    }
    case 'permit': {
      const query = { active: 'true', limit: 50 } as const;
      const answer = await runtime.call('approvald', 'listPermits', { query }, { deadlineMs });
      return answer.permits.map((one) => [one.id, `${one.agent}: ${one.action ?? one.class}`]);
    }
    case 'memory': {
      const query = { limit: 50 };
      const { memories } = await runtime.call('memoryd', 'listMemories', { query }, { deadlineMs });
      return memories.map(({ id, scope, text }) => [id, `${scope}: ${text}`]);
    }
    case 'person':
      return process
        .getBuiltinModule('node:fs')
        .readdirSync(`${runtime.stateDir}/people`)
        .flatMap((file) => (file.endsWith('.key') ? [[file.slice(0, -4)] as const] : []));
    case 'key': {
      const { keys } = await runtime.call('modeld', 'listKeys', {}, { deadlineMs });
      return keys.map(({ name, status }) => [name, status]);
    }
    case 'artifact': {
      const query = { limit: 50 };
      const answer = await runtime.call('agentd', 'listArtifacts', { query }, { deadlineMs });
      return answer.artifacts.map(({ id, name }) => [id, name]);
    }
    case 'tool': {
      const { tools } = await runtime.call('toold', 'listTools', {}, { deadlineMs });
      return tools.map(({ name, description }) => [name, description]);
    }
    case 'model': {
      const { models } = await runtime.call('modeld', 'listModels', {}, { deadlineMs });
      return models.map(({ name }) => [name]);
    }
    default:
      return [];
  }
}
