// Renders --help from the command table: all commands, one group, or one command.
import { fault } from '../../wire/errors.ts';
import type { Command, Option, Positional } from './command.ts';
import type { Out } from './out.ts';
import { commandsBelow, type Parsed } from './parse.ts';
import { measureWidth, pad, wrap } from './show/width.ts';
import { EXAMPLES } from './table/examples.ts';
import { GLOBAL_OPTIONS, GROUPS } from './table.ts';

const EXITS =
  '0 done · 1 failed · 2 wrong usage · 3 denied by policy, or to this user or key · ' +
  '4 waiting for a person (--no-wait) · 5 not found · 6 runtime not reachable · ' +
  '7 budget or limit reached · 70 internal · 78 bad config';

const IDS =
  'An id may be shortened to a beginning that no other has, with or without its kind: ' +
  'task_01kq8zt or 01kq8zt. Scripts should use whole ids: what is unique now need not stay so.';

const indent = (text: string, columns: number): string[] =>
  wrap(text, Math.min(columns, 100) - 2).map((line) => `  ${line}`);

export function showHelp(parsed: Parsed, out: Out): number {
  const { command, path } = parsed;
  if (command === undefined && path.length > 0 && !parsed.help) {
    const subcommands = [...new Set(commandsBelow(path).map((one) => one.path[path.length]))];
    throw fault('bad_usage', `${path.join(' ')} needs one of: ${subcommands.join(', ')}`, {
      hint: `See: agentctl ${path.join(' ')} --help`,
    });
  }
  const shown = command === undefined ? commandsBelow(path) : [command];
  out.print({ commands: shown.map(toDocument) }, () =>
    command === undefined ? renderOverview(path, out) : renderCommand(command, out),
  );
  return 0;
}

function toDocument({ path, positionals = [], options = [], help, details = [] }: Command) {
  return {
    name: path.join(' '),
    usage: formatUsage({ path, positionals, options }),
    help,
    details,
    examples: findExamples(path),
    options,
  };
}

function formatUsage({
  path,
  positionals = [],
  options = [],
}: Pick<Command, 'path' | 'positionals' | 'options'>) {
  const wordTexts = positionals.map(formatPositional);
  const required = options.filter((option) => option.required === true);
  const rest = options.length > required.length ? ['[options]'] : [];
  return ['agentctl', ...path, ...wordTexts, ...required.map(formatOption), ...rest].join(' ');
}

const formatPositional = ({ name, optional, many }: Positional): string => {
  const text = many === true ? `${name}…` : name;
  return optional === true ? `[${text}]` : text;
};

const formatOption = ({ name, value }: Option): string =>
  value === undefined ? `--${name}` : `--${name} ${value}`;

function renderPairs(rows: readonly (readonly [string, string])[], columns: number): string[] {
  const width = Math.max(...rows.map(([left]) => measureWidth(left)));
  return rows.flatMap(([left, right]) =>
    wrap(right, Math.max(columns - width - 4, 20)).map(
      (line, i) => `  ${pad(i === 0 ? left : '', width)}  ${line}`,
    ),
  );
}

function renderOverview(path: readonly string[], out: Out): string[] {
  const { paint } = out;
  const groups = path.length === 0 ? GROUPS : [{ title: undefined, commands: commandsBelow(path) }];
  const lines = groups.flatMap(({ title, commands }) => [
    '',
    ...(title === undefined ? [] : [paint('bold', title)]),
    ...renderPairs(commands.map(toRow), out.columns),
  ]);
  const start = ['agentctl', ...path].join(' ');
  return [
    `${paint('bold', start)} COMMAND … [--state DIR] [--json] [--help]`,
    ...lines,
    '',
    paint('bold', 'Global options'),
    ...renderOptions(GLOBAL_OPTIONS, out.columns),
    ...(path.length > 0 ? [] : renderNotes(out)),
  ];
}

const renderNotes = ({ paint, columns }: Out): string[] => [
  '',
  paint('bold', 'Ids'),
  ...indent(IDS, columns),
  '',
  paint('bold', 'Exit status'),
  ...indent(EXITS, columns),
];

const toRow = ({ path, positionals = [], help }: Command): readonly [string, string] => {
  const wordTexts = positionals.map(formatPositional);
  return [[...path, ...wordTexts].join(' '), help];
};

function renderOptions(options: readonly Option[], columns: number): string[] {
  const rows = options.map((option) => {
    const short = option.short === undefined ? '' : `-${option.short}, `;
    return [short + formatOption(option), option.help] as const;
  });
  return renderPairs(rows, columns);
}

const findExamples = (path: readonly string[]): readonly string[] => EXAMPLES[path.join(' ')] ?? [];

/** Not wrapped, so that they can be copied. */
const renderExamples = (examples: readonly string[], paint: Out['paint']): string[] =>
  examples.length === 0
    ? []
    : ['', paint('bold', 'Examples'), ...examples.map((line) => `  ${line}`)];

function renderCommand(command: Command, { paint, columns }: Out): string[] {
  const options = [...(command.options ?? []), ...GLOBAL_OPTIONS];
  return [
    paint('bold', formatUsage(command)),
    '',
    ...indent(command.help, columns),
    ...(command.details ?? []).flatMap((line) => indent(line, columns)),
    ...renderExamples(findExamples(command.path), paint),
    '',
    paint('bold', 'Options'),
    ...renderOptions(options, columns),
  ];
}
