// Parses the rehearsal server's command line into options or an error message. Pure.
import { parseArgs } from 'node:util';

export type ListenAddress =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string };

export type RehearsalOptions = {
  readonly address: ListenAddress;
  readonly screenplays: readonly string[];
  readonly exitsOnStdinEnd: boolean;
  readonly isCheckOnly: boolean;
};

export const USAGE = `usage: node rehearsal/main.ts [--listen 127.0.0.1:PORT|/path/to.sock]
         [--screenplays DIR]… [--exit-with-stdin] [--check]

  --listen           listen on this address; port 0, the default, picks a free port
  --screenplays      load this directory of screenplays before the built-in ones
  --exit-with-stdin  exit when standard input closes
  --check            check the screenplays, print any problems, and exit
`;

/** A socket path must fit into sockaddr_un. */
const SOCKET_PATH_BYTES_MAX = 107;

export function parseAddress(text: string): ListenAddress | string {
  if (text.startsWith('/') || text.startsWith('./')) {
    return Buffer.byteLength(text) > SOCKET_PATH_BYTES_MAX
      ? `--listen: the path is longer than ${SOCKET_PATH_BYTES_MAX} bytes`
      : { kind: 'unix', path: text };
  }
  const match = /^(127\.0\.0\.1|localhost|\[::1\]):(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (!match || port > 65_535) {
    return `--listen: "${text}" is neither a path nor a loopback address such as 127.0.0.1:8080`;
  }
  return { kind: 'tcp', host: match[1]!.replace(/[[\]]/g, ''), port };
}

export function parseCommandLine(args: readonly string[]): RehearsalOptions | 'help' | string {
  try {
    const { values } = parseArgs({
      args: [...args],
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
      exitsOnStdinEnd: values['exit-with-stdin'],
      isCheckOnly: values.check,
    };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
