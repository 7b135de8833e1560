// Completes ids that a person has shortened: the daemons that have such ids find those that begin
// with it. Exactly one must.
import { fault } from '../../wire/errors.ts';
import { findShortId, type ShortId } from './check-ids.ts';
import type { Args, Command, Completes } from './command.ts';
import type { RuntimeClient } from './runtime.ts';

type Connect = () => RuntimeClient;

function completesAt({ positionals = [] }: Command, i: number): Completes | undefined {
  return (positionals[i] ?? (positionals.at(-1)?.many === true ? positionals.at(-1) : undefined))
    ?.completes;
}

/** Without a shortened id it returns the arguments as they are, and connects to nothing. */
export async function completeIds(command: Command, args: Args, connect: Connect): Promise<Args> {
  const whole = new Map<string, string>();
  const complete = async (text: string, completes: Completes | undefined): Promise<void> => {
    if (completes === undefined) return;
    const id = await completeId(text, completes, connect);
    if (id !== text) whole.set(`${completes} ${text}`, id);
  };
  for (const [i, text] of args.positionals.entries()) await complete(text, completesAt(command, i));
  const idOptions = (command.options ?? []).filter(
    ({ completes }) => typeof completes === 'string',
  );
  for (const { name, completes, many } of idOptions) {
    const texts = many === true ? args.list(name) : [args.text(name)];
    for (const text of texts) if (text !== undefined) await complete(text, completes);
  }
  if (whole.size === 0) return args;
  const read = (text: string, completes: Completes | undefined): string =>
    whole.get(`${completes} ${text}`) ?? text;
  const kindOf = (name: string) => idOptions.find((option) => option.name === name)?.completes;
  return {
    ...args,
    positionals: args.positionals.map((text, i) => read(text, completesAt(command, i))),
    text: (name) => {
      const text = args.text(name);
      return text === undefined ? undefined : read(text, kindOf(name));
    },
    list: (name) => args.list(name).map((text) => read(text, kindOf(name))),
  };
}

/** The whole id for one that may be shortened. */
export async function completeId(
  text: string,
  completes: Completes,
  connect: Connect,
): Promise<string> {
  const short = findShortId(text, completes);
  return short === undefined ? text : findWhole(short, connect());
}

/** A daemon that does not respond fails the command: the id could be one of its own. */
async function findWhole(
  { known, prefix, rest }: ShortId,
  runtime: RuntimeClient,
): Promise<string> {
  const found = new Set<string>();
  for (const daemon of known.daemons) {
    const { ids } = await runtime.call(daemon, 'findIds', { params: { prefix } });
    for (const id of ids) found.add(id);
  }
  const [id, ...others] = [...found].sort();
  if (id === undefined)
    throw fault('not_found', `no id of ${known.article} begins with ${prefix}`, {
      hint: `Look it up: ${known.see}`,
    });
  if (others.length === 0) return `${id}${rest}`;
  const candidates = [id, ...others];
  throw fault('bad_usage', `${prefix} is the beginning of several ids`, {
    hint: `Type more of it: ${candidates.join(', ')}`,
    details: { candidates },
  });
}
