// Reads the command line of the rehearsal server. Pure: words in, options or a complaint out.
import { parseArgs } from 'node:util';

export type Address =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string };

export type Options = {
  readonly address: Address;
  readonly screenplays: readonly string[];
  readonly exitsWithStdin: boolean;
  readonly onlyChecks: boolean;
};

export const USAGE = `usage: node rehearsal/main.ts [--listen 127.0.0.1:PORT|/path/to.sock]
         [--screenplays DIR]… [--exit-with-stdin] [--check]

  --listen           where to listen; port 0, the default, picks a free one
  --screenplays      a directory of screenplays that stand before those that ship
  --exit-with-stdin  stop when standard input closes
  --check            read the screenplays, say what is wrong with them, and stop
`;

/** A pathname of a socket must fit into sockaddr_un. */
const socketPathBytesMax = 107;

export function parseAddress(text: string): Address | string {
  if (text.startsWith('/') || text.startsWith('./')) {
    return Buffer.byteLength(text) > socketPathBytesMax
      ? `--listen: the path has more than ${socketPathBytesMax} bytes; use a shorter one`
      : { kind: 'unix', path: text };
  }
  const parts = /^(127\.0\.0\.1|localhost|\[::1\]):(\d{1,5})$/.exec(text);
  const port = Number(parts?.[2]);
  if (!parts || port > 65_535) {
    return `--listen: "${text}" is neither a path nor a loopback address such as 127.0.0.1:8080`;
  }
  return { kind: 'tcp', host: parts[1]!.replace(/[[\]]/g, ''), port };
}

export function parseCommandLine(words: readonly string[]): Options | 'help' | string {
  try {
    const { values } = parseArgs({
      args: [...words],
      options: {
        listen: { type: 'string', default: '127.0.0.1:0' },
        screenplays: { type: 'string', multiple: true, default: [] },
        'exit-with-stdin': { type: 'boolean', default: false },
        check: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    if (values.help) return 'help';
    const address = parseAddress(values.listen);
    if (typeof address === 'string') return address;
    return {
      address,
      screenplays: values.screenplays,
      exitsWithStdin: values['exit-with-stdin'],
      onlyChecks: values.check,
    };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
