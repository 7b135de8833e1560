// Parses a command line into a command and its checked arguments. Global options may stand
// anywhere; `--` ends the options.
import { findNearest } from '../../platform/did-you-mean.ts';
import { fault } from '../../wire/errors.ts';
import { checkId } from './check-ids.ts';
import type { Args, Command, Option } from './command.ts';
import { readDuration, readUsd } from './read-amounts.ts';
import { EXAMPLES } from './table/examples.ts';
import {
  COMMANDS,
  GLOBAL_OPTIONS,
  MISSING_HINTS,
  NOT_YET,
  OTHER_NAMES,
  OTHER_VERBS,
} from './table.ts';

type Value = string | number | true | string[];
type Values = Map<string, Value>;

export type Parsed = {
  /** The command's words, as far as they were typed. */
  path: readonly string[];
  command: Command | undefined;
  args: Args;
  state: string | undefined;
  /** The person whose key to use; absent: the operator. */
  as: string | undefined;
  json: boolean;
  help: boolean;
};

const startsWith = (path: readonly string[], words: readonly string[]): boolean =>
  words.every((word, i) => path[i] === word);

export function commandsBelow(words: readonly string[]): Command[] {
  return COMMANDS.filter(({ path }) => startsWith(path, words));
}

function usageFault(what: string, path: readonly string[] = []) {
  return fault('bad_usage', what, { hint: `See: ${['agentctl', ...path, '--help'].join(' ')}` });
}

/** Keeps what was parsed before a fault, so that --json applies to the fault too. */
export function parse(tokens: readonly string[]): { parsed: Parsed; problem: unknown } {
  const values: Values = new Map();
  const positionals: string[] = [];
  const path: string[] = [];
  let command: Command | undefined;
  let problem: unknown;
  try {
    command = readTokens(tokens, { values, positionals, path });
    if (command !== undefined && !values.has('help')) checkComplete(command, positionals, values);
  } catch (error) {
    problem = error;
  }
  const json = values.has('json') || (problem !== undefined && tokens.includes('--json'));
  const state = values.get('state') as string | undefined;
  const as = values.get('as') as string | undefined;
  const args = makeArgs(positionals, values);
  return { parsed: { path, command, args, state, as, json, help: values.has('help') }, problem };
}

type ParseState = { values: Values; positionals: string[]; path: string[] };

function readTokens(tokens: readonly string[], { values, positionals, path }: ParseState) {
  let command: Command | undefined;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!;
    if (token === '--') {
      for (const word of tokens.slice(i + 1))
        command = addArgument(word, command, path, positionals);
      break;
    }
    if (token.length < 2 || !token.startsWith('-')) {
      command = addArgument(token, command, path, positionals);
      continue;
    }
    const { option, inline } = findOption(token, command, path);
    if (option.value === undefined) {
      if (inline !== undefined) throw usageFault(`--${option.name} takes no value`, path);
      values.set(option.name, true);
      continue;
    }
    const text = inline ?? tokens[++i];
    if (text === undefined)
      throw usageFault(`--${option.name} needs a value: ${option.value}`, path);
    setValue(values, option, text, path);
  }
  return command;
}

/**
 * Tokens extend the command's path while a command has it; the others are positionals. So of
 * `backup` and `backup list` the longer one is meant, and a directory `list` is typed `./list`.
 */
function addArgument(
  word: string,
  command: Command | undefined,
  path: string[],
  positionals: string[],
) {
  const longer = positionals.length === 0 ? commandsBelow([...path, word]) : [];
  if (command !== undefined && longer.length === 0) {
    positionals.push(word);
    const known = command.positionals ?? [];
    if (positionals.length > known.length && known.at(-1)?.many !== true)
      throw extraArgumentFault(word, command);
    return command;
  }
  if (longer.length === 0) throw unknownCommandFault(word, path);
  path.push(word);
  return longer.find((one) => one.path.length === path.length);
}

/** An extra argument is usually a goal or question typed without quotes. */
function extraArgumentFault(word: string, { path, positionals = [] }: Command) {
  const what = `${path.join(' ')} does not take '${word}'`;
  const last = positionals.at(-1);
  if (last === undefined || !['GOAL', 'QUESTION', 'TEXT', 'MESSAGE'].includes(last.name))
    return usageFault(what, path);
  const before = positionals.slice(0, -1).map(({ name }) => name);
  const form = ['agentctl', ...path, ...before, `"${last.name}"`].join(' ');
  return fault('bad_usage', what, { hint: `Put the ${last.name} in quotes: ${form}` });
}

function unknownCommandFault(word: string, path: readonly string[]) {
  const typed = [...path, word].join(' ');
  if (NOT_YET.includes(typed)) {
    return fault('bad_usage', `'${typed}' is not in this version`, {
      hint: 'List the commands: agentctl --help',
    });
  }
  const other = OTHER_NAMES[typed] ?? findOtherVerb(word, path);
  if (other !== undefined)
    return fault('bad_usage', `unknown command '${typed}'`, { hint: `Use: agentctl ${other}` });
  const known = commandsBelow(path).map((command) => command.path[path.length]!);
  const near = findNearest(word, known);
  const guess = near === undefined ? '' : `; did you mean '${[...path, near].join(' ')}'?`;
  return usageFault(`unknown command '${typed}'${guess}`, path);
}

function findOtherVerb(word: string, path: readonly string[]): string | undefined {
  const verbs = Object.hasOwn(OTHER_VERBS, word) ? OTHER_VERBS[word]! : [];
  const found = verbs.find((verb) => commandsBelow([...path, verb]).length > 0);
  return found === undefined || path.length === 0 ? undefined : [...path, found].join(' ');
}

function missingFault({ path }: Command, what: string) {
  const name = path.join(' ');
  const [example] = EXAMPLES[name] ?? [];
  const hint =
    MISSING_HINTS[name] ??
    (example === undefined ? undefined : `For example: ${example}. See: agentctl ${name} --help`);
  return hint === undefined
    ? usageFault(`${name} needs ${what}`, path)
    : fault('bad_usage', `${name} needs ${what}`, { hint });
}

function findOption(token: string, command: Command | undefined, path: readonly string[]) {
  const known = [...(command?.options ?? []), ...GLOBAL_OPTIONS];
  const long = /^--([^=]+)(?:=([\s\S]*))?$/.exec(token);
  const short = /^-(\w)(?:=?([\s\S]+))?$/.exec(token);
  const option = known.find(({ name, short: letter }) =>
    long === null ? letter !== undefined && letter === short?.[1] : name === long[1],
  );
  if (option !== undefined) return { option, inline: long === null ? short?.[2] : long[2] };
  const near =
    long === null
      ? undefined
      : (findNearest(
          long[1]!,
          known.map(({ name }) => name),
        ) ?? known.find(({ name }) => name.startsWith(`${long[1]}-`))?.name);
  const guess = near === undefined ? '' : `; did you mean --${near}?`;
  const where = command === undefined ? 'before the command' : `for ${command.path.join(' ')}`;
  throw usageFault(`unknown option ${token.split('=')[0]} ${where}${guess}`, path);
}

function setValue(values: Values, option: Option, text: string, path: readonly string[]): void {
  checkText(option, text, path);
  if (option.many === true) {
    values.set(option.name, [...((values.get(option.name) as string[]) ?? []), text]);
    return;
  }
  if (values.has(option.name)) throw usageFault(`--${option.name} is given twice`, path);
  const value = readValue(option, text);
  if (value === undefined)
    throw usageFault(`--${option.name} ${text} is not ${KIND_TEXTS[option.kind ?? 'text']}`, path);
  if (option.most !== undefined && Number(value) > option.most)
    throw usageFault(`--${option.name} ${text} is above the maximum of ${option.most}`, path);
  values.set(option.name, value);
}

function checkText({ name, completes, only }: Option, text: string, path: readonly string[]) {
  // An unset variable in a script must not select another directory or agent.
  if (text === '' && completes !== undefined) throw usageFault(`--${name} is empty`, path);
  if (only === true && !(completes as readonly string[]).includes(text)) {
    const known = (completes as readonly string[]).join(', ');
    throw usageFault(`--${name} ${text} is not one of: ${known}`, path);
  }
  checkId(text, completes);
}

const KIND_TEXTS = {
  text: 'text',
  count: 'a whole number above 0',
  priority: 'a whole number from -100 to 100',
  usd: 'an amount of money such as 0.50',
  duration: 'a duration such as 30s, 10m, 2h or 1d',
} as const;

function readValue(option: Option, text: string): string | number | undefined {
  switch (option.kind) {
    case 'count':
      return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined;
    case 'priority':
      return /^-?\d{1,3}$/.test(text) && Math.abs(Number(text)) <= 100 ? Number(text) : undefined;
    case 'usd':
      return readUsd(text);
    case 'duration':
      return readDuration(text);
    default:
      return text;
  }
}

function checkComplete(command: Command, positionals: readonly string[], values: Values): void {
  const missing = (command.positionals ?? [])[positionals.length];
  if (missing !== undefined && missing.optional !== true) throw missingFault(command, missing.name);
  (command.positionals ?? []).forEach(({ completes }, i) => {
    if (positionals[i] !== undefined) checkId(positionals[i], completes);
  });
  for (const option of command.options ?? []) {
    if (option.required === true && !values.has(option.name))
      throw missingFault(command, `--${option.name} ${option.value}`);
  }
}

function makeArgs(positionals: readonly string[], values: Values): Args {
  return {
    positionals,
    flag: (name) => values.get(name) === true,
    text: (name) => values.get(name) as string | undefined,
    number: (name) => values.get(name) as number | undefined,
    list: (name) => (values.get(name) as string[] | undefined) ?? [],
  };
}
