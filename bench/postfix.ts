// Starts a Postfix of Debian with a configuration, a queue and mailboxes of its own, on loopback.
// It delivers into Maildirs, like maild.
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keep } from './children.ts';
import { freePort, listening } from './peers.ts';

export type Postfix = { name: string; port: number; maildir: string; stop(): Promise<void> };

const POSTFIX = '/usr/sbin/postfix';
const NOBODY = 65_534;

/** Why it cannot run here; undefined if it can. */
export function findPostfixObstacle(): string | undefined {
  if (process.getuid?.() !== 0) return 'Postfix needs root';
  return existsSync(POSTFIX) ? undefined : 'Postfix is not here (Debian: postfix)';
}

export async function startPostfix(address: string): Promise<Postfix> {
  const dir = mkdtempSync(join(tmpdir(), 'postfix-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  chmodSync(dir, 0o755);
  const port = await freePort();
  const [conf, boxes, data] = ['conf', 'boxes', 'data'].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [conf, boxes, join(dir, 'queue'), data]) mkdirSync(path);
  chownSync(boxes, NOBODY, NOBODY);
  const postfixUid = Number(spawnSync('id', ['-u', 'postfix'], { encoding: 'utf8' }).stdout);
  chownSync(data, postfixUid, postfixUid);
  const [, domain] = address.split('@') as [string, string];
  writeFileSync(join(conf, 'main.cf'), mainCf({ dir, domain }));
  writeFileSync(join(conf, 'master.cf'), masterCf(port));
  const { stdout } = spawnSync('/usr/sbin/postconf', ['-d', '-h', 'mail_version'], {
    encoding: 'utf8',
  });
  const child = keep(
    spawn(POSTFIX, ['-c', conf, 'start-fg'], { stdio: ['ignore', 'ignore', 'ignore'] }),
  );
  await listening(port, child);
  return {
    name: `Postfix ${stdout.trim()}`,
    port,
    maildir: join(boxes, 'box'),
    async stop() {
      spawnSync(POSTFIX, ['-c', conf, 'stop']);
      if (child.exitCode === null) await new Promise((resolve) => child.once('exit', resolve));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

const mainCf = ({ dir, domain }: { dir: string; domain: string }): string => `
compatibility_level = 3.6
queue_directory = ${dir}/queue
data_directory = ${dir}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = bench.test
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
maillog_file = ${dir}/mail.log
maillog_file_prefixes = ${dir}
virtual_mailbox_domains = ${domain}
virtual_mailbox_base = ${dir}/boxes
virtual_mailbox_maps = static:box/
virtual_uid_maps = static:${NOBODY}
virtual_gid_maps = static:${NOBODY}
smtpd_relay_restrictions = permit_mynetworks, reject
`;

/** The services that receive and deliver, with Debian's settings, and no chroot. */
const masterCf = (port: number): string => `
127.0.0.1:${port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
proxymap unix - - n - - proxymap
proxywrite unix - - n - 1 proxymap
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
`;
