// agentctl model add: adds or changes a provider. The key comes from a file, standard input or a
// hidden prompt, never from the command line, where every process could read it.
import { fault } from '../../../wire/errors.ts';
import type { DialectName, ModelView, ProviderPrice } from '../../../wire/modeld.ts';
import type { Args, Session } from '../command.ts';
import { readInput } from '../input.ts';
import type { RuntimeClient } from '../runtime.ts';

const KNOWN: Readonly<Record<string, { dialect: string; url: string }>> = {
  anthropic: { dialect: 'anthropic', url: 'https://api.anthropic.com' },
  openai: { dialect: 'openai', url: 'https://api.openai.com/v1' },
};

const DIALECTS: readonly DialectName[] = ['anthropic', 'openai', 'responses'];

export async function add({ args, out, runtime }: Session): Promise<void> {
  const name = args.positionals[0]!;
  const { providers } = await runtime().call('modeld', 'listModels', {});
  // Options that are not given keep their values for an existing provider.
  const old = providers.find((provider) => provider.name === name);
  const asked = args.text('dialect') ?? old?.dialect ?? KNOWN[name]?.dialect;
  const dialect = DIALECTS.find((known) => known === asked);
  const base_url = args.text('base-url') ?? old?.base_url ?? KNOWN[name]?.url;
  if (dialect === undefined) {
    throw fault('bad_usage', `${name} is not a known provider: --dialect is required`, {
      hint: 'Add --dialect anthropic, openai (also for compatible servers) or responses.',
    });
  }
  if (base_url === undefined) {
    throw fault('bad_usage', `${name} is not a known provider: --base-url is required`, {
      hint: 'For example: --base-url http://127.0.0.1:11434/v1',
    });
  }
  if (!/^https?:\/\//.test(base_url) || !URL.canParse(base_url)) {
    throw fault('bad_usage', `--base-url ${base_url} is not an http or https URL`, {
      hint: 'For example: --base-url http://127.0.0.1:11434/v1',
    });
  }
  const keyFile = args.text('key-file');
  const key =
    keyFile === undefined
      ? await promptForKey(name, old?.has_key === true)
      : readInput(keyFile).trim();
  if (key === '' && old?.has_key !== true && isVendor(base_url)) {
    throw fault('bad_usage', `${base_url} requires a key`, {
      hint: `Name a key file: agentctl model add ${name} --key-file FILE (- reads stdin)`,
    });
  }
  const models = [...args.list('model')];
  const price = readPrice(args);
  const body = {
    dialect,
    base_url,
    ...(key === '' ? {} : { key }),
    ...(models.length === 0 ? {} : { models }),
    ...(price === undefined ? {} : { price }),
  } as const;
  const answer = await runtime().call('modeld', 'addProvider', { params: { name }, body });
  const { provider } = answer;
  const offered = await readModels(runtime(), name);
  out.print(answer, () => [
    `${provider.name} configured: ${provider.base_url}, ${formatKey(provider.has_key)}`,
    ...renderPriceWarning(name, offered),
    offered.length === 0
      ? `No model is routed to it yet: agentctl model add ${name} --model MODEL`
      : `Try it: agentctl model test ${models[0] ?? offered[0]!.name}`,
  ]);
}

/** Other servers, such as a local one, may need no key. */
const isVendor = (url: string): boolean => Object.values(KNOWN).some((known) => known.url === url);

async function readModels(runtime: RuntimeClient, provider: string): Promise<ModelView[]> {
  const { models } = await runtime.call('modeld', 'listModels', {});
  return models.filter(({ routes }) => routes.some((route) => route.provider === provider));
}

function renderPriceWarning(provider: string, models: readonly ModelView[]): string[] {
  const guessed = models.filter(({ price }) => price.is_guess);
  if (guessed.length === 0) return [];
  const { input, output } = guessed[0]!.price;
  return [
    `${guessed.map(({ name }) => name).join(', ')} has no known price, so it is charged at the rate of the most`,
    `expensive model: $${input} and $${output} for a million tokens in and out. If it costs nothing:`,
    `agentctl model add ${provider} --free (or --price-in USD --price-out USD)`,
  ];
}

function readPrice(args: Args): ProviderPrice | undefined {
  const input = args.number('price-in');
  const output = args.number('price-out');
  if (args.flag('free')) {
    if (input === undefined && output === undefined) return { input: 0, output: 0 };
    throw fault('bad_usage', '--free cannot be combined with a price', {
      hint: 'Give either --free, or --price-in with --price-out.',
    });
  }
  if (input === undefined && output === undefined) return undefined;
  if (input === undefined || output === undefined)
    throw fault('bad_usage', '--price-in and --price-out must be given together', {
      hint: 'For example: --price-in 3 --price-out 15 (USD for a million tokens)',
    });
  return { input: input / 1_000_000, output: output / 1_000_000 };
}

const formatKey = (hasKey: boolean): string => (hasKey ? 'with a key' : 'without a key');

/** Returns '' without a terminal: a local server needs no key. */
async function promptForKey(name: string, hasOne: boolean): Promise<string> {
  const { stdin } = process;
  if (!stdin.isTTY) return '';
  process.stderr.write(
    `Key for ${name} (not shown; empty ${hasOne ? 'keeps the current one' : 'for none'}): `,
  );
  stdin.setRawMode(true);
  try {
    return await readHidden(stdin);
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    process.stderr.write('\n');
  }
}

async function readHidden(stdin: NodeJS.ReadStream): Promise<string> {
  let key = '';
  stdin.setEncoding('utf8');
  for await (const chunk of stdin.iterator({ destroyOnReturn: false }) as AsyncIterable<string>) {
    for (const letter of chunk) {
      if (letter === '\r' || letter === '\n') return key.trim();
      if (letter === '\u0003' || letter === '\u0004')
        throw fault('canceled', 'no key was entered', { hint: 'Nothing was changed.' });
      key = letter === '\u007f' ? key.slice(0, -1) : key + letter;
    }
  }
  return key.trim();
}
