// People's own Maildirs: started as root, mail goes into a directory of the person, as their file.
// The person does there what they like, with mutt, s-nail and Dovecot, and leads nobody elsewhere.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root';
/** In a range that hosts leave free. */
const UID = { ann: 61_701, bob: 61_702 } as const;
type Person = keyof typeof UID;
const accountOf = (name: Person): string => `agentd-t-${name}`;

function host(command: string, ...words: string[]): string {
  const { status, stdout, stderr } = spawnSync(command, words, { encoding: 'utf8' });
  assert.equal(status, 0, `${command} ${words.join(' ')}: ${stderr}`);
  return stdout;
}

/** A shell command with the rights of this person alone. */
const as = (name: Person, home: string, command: string, stdin = '') =>
  spawnSync(
    'setpriv',
    [`--reuid=${UID[name]}`, `--regid=${UID[name]}`, '--clear-groups', 'sh', '-c', command],
    {
      encoding: 'utf8',
      input: stdin,
      timeout: 20_000,
      env: { PATH: process.env.PATH!, HOME: home, USER: accountOf(name), TERM: 'dumb' },
    },
  );

describe('Maildirs of people, started as root', { skip }, () => {
  const base = freshDir();
  const homeOf = (name: Person): string => join(base, name);
  const maildirOf = (name: Person): string => join(homeOf(name), 'Maildir');
  let world: TestRuntime;
  before(async () => {
    chmodSync(base, 0o711);
    for (const name of ['ann', 'bob'] as const) {
      for (const command of ['userdel', 'groupdel']) spawnSync(command, [accountOf(name)]);
      const id = String(UID[name]);
      host('groupadd', '-g', id, accountOf(name));
      host('useradd', '-u', id, '-g', id, '-d', homeOf(name), '-s', '/bin/false', accountOf(name));
      mkdirSync(homeOf(name), { mode: 0o700 });
      host('chown', `${id}:${id}`, homeOf(name));
      writePersonKey(join(base, 'state'), name);
    }
    writeFileSync(join(homeOf('ann'), 'secret'), 'of ann');
    world = await startRuntime({
      base,
      config: JSON.stringify({
        maild: {
          maildirs: { ann: { user: accountOf('ann') }, bob: { user: accountOf('bob') } },
        },
      }),
    });
  });
  after(async () => {
    await world?.remove();
    for (const name of ['ann', 'bob'] as const) spawnSync('userdel', [accountOf(name)]);
    rmSync(base, { recursive: true, force: true });
  });

  const sendTo = (to: Person, text: string) => world.maild.sendMail({ body: { to, text } });
  const filesIn = (home: string): string[] =>
    ['new', 'cur'].flatMap((part) => {
      const dir = join(home, part);
      if (lstatSync(dir, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
      return readdirSync(dir)
        .map((name) => join(dir, name))
        .filter((path) => lstatSync(path, { throwIfNoEntry: false })?.isFile() === true);
    });
  const stateBox = (name: Person) => join(world.stateDir, 'mail', name);
  const has = (home: string, text: string) =>
    filesIn(home).some((path) => readFileSync(path, 'utf8').includes(text));
  const subjects = async (box: Person) =>
    (await world.maild.listMail({ query: { box } })).mails.map(({ subject }) => subject);

  it('[K70] mail is a file of the person in their home, and of nobody else', async () => {
    await sendTo('ann', 'Heron one');
    const [path] = filesIn(maildirOf('ann'));
    const { uid, gid, mode } = statSync(path!);
    assert.deepEqual([uid, gid, mode & 0o777], [UID.ann, UID.ann, 0o600]);
    assert.equal(statSync(maildirOf('ann')).mode & 0o777, 0o700);
    assert.deepEqual(filesIn(stateBox('ann')), []);
    const read = as('ann', homeOf('ann'), `cat '${path}'`);
    assert.match(read.stdout, /Heron one/);
    assert.notEqual(as('bob', homeOf('bob'), `cat '${path}'`).status, 0, 'control: another');
    assert.deepEqual(await subjects('ann'), ['Heron one']);
  });

  it('[K71] s-nail and mutt read, mark and delete it with the rights of the person', async () => {
    const listed = as('ann', homeOf('ann'), `s-nail -:/ -R -H -f '${maildirOf('ann')}'`);
    assert.match(listed.stdout, /Heron one/);
    const typed = as('ann', homeOf('ann'), `s-nail -:/ -f '${maildirOf('ann')}'`, 'type 1\nquit\n');
    assert.match(typed.stdout, /Heron one/);
    assert.deepEqual(readdirSync(join(maildirOf('ann'), 'new')), []);
    const { mails } = await world.maild.listMail({ query: { box: 'ann' } });
    assert.equal(mails[0]?.is_read, true);
    const rc = join(homeOf('ann'), 'muttrc');
    const settings = `set folder="${maildirOf('ann')}" delete=yes quit=yes move=no`;
    writeFileSync(rc, `${settings}\npush <delete-message><sync-mailbox><quit>\n`);
    const mutt = `script -qec 'mutt -n -F ${rc} -f ${maildirOf('ann')}' /dev/null`;
    const deleted = as('ann', homeOf('ann'), mutt);
    assert.equal(filesIn(maildirOf('ann')).length, 0, deleted.stdout);
    assert.deepEqual(await subjects('ann'), []);
    await sendTo('ann', 'Heron two');
    assert.deepEqual(await subjects('ann'), ['Heron two'], 'and the next one arrives');
  });

  it('the runtime sees that directory alone, without links, programs or devices', () => {
    const mounted = join(`${world.runtimeDir}.warden`, 'mail', 'ann');
    const seen = `/proc/${world.runtimePid}/root${mounted}`;
    assert.equal(statSync(seen).uid, world.info.uid, 'as its own');
    assert.deepEqual(readdirSync(seen).sort(), ['cur', 'new', 'tmp']);
    assert.ok(!existsSync(join(seen, '..', 'secret')));
    assert.ok(!existsSync(mounted), 'nobody else sees it there');
    const line = readFileSync(`/proc/${world.runtimePid}/mountinfo`, 'utf8')
      .split('\n')
      .find((entry) => entry.includes(` ${mounted} `));
    for (const option of ['nosuid', 'nodev', 'noexec', 'nosymfollow', 'idmapped'])
      assert.match(line!, new RegExp(`\\b${option}\\b`));
    const asDaemons = [`--reuid=${world.info.uid}`, `--regid=${world.info.uid}`, '--clear-groups'];
    const tried = spawnSync('setpriv', [...asDaemons, 'ls', homeOf('ann')]);
    assert.notEqual(tried.status, 0, 'the home is closed to them');
  });

  it('a link in place of a directory leads nowhere: mail goes into the state directory', async () => {
    const target = join(world.stateDir, 'policies');
    mkdirSync(target, { recursive: true });
    host('chown', `${world.info.uid}:${world.info.uid}`, target);
    const part = join(maildirOf('ann'), 'new');
    for (const name of ['new', 'tmp']) {
      renameSync(join(maildirOf('ann'), name), join(homeOf('ann'), name));
      symlinkSync(target, join(maildirOf('ann'), name));
    }
    await sendTo('ann', 'Heron three');
    await sendTo('bob', 'Heron for bob');
    assert.deepEqual(readdirSync(target), []);
    assert.ok(has(stateBox('ann'), 'Heron three'));
    assert.ok(has(maildirOf('bob'), 'Heron for bob'), 'others get theirs');
    assert.ok((await subjects('ann')).includes('Heron three'));
    for (const name of ['new', 'tmp']) {
      rmSync(join(maildirOf('ann'), name));
      renameSync(join(homeOf('ann'), name), join(maildirOf('ann'), name));
    }
    await sendTo('ann', 'Heron four');
    assert.ok(has(maildirOf('ann'), 'Heron four'), `control: ${part} is a directory again`);
  });

  it('nor does one that comes and goes while mail arrives, and none is lost', async () => {
    const target = join(world.stateDir, 'policies');
    const dir = maildirOf('ann');
    const swap = `cd '${dir}' && ln -s '${target}' link && while :; do mv -T new kept && mv -T link new; mv -T new link; mv -T kept new; done`;
    const swapping = spawn(
      'setpriv',
      [`--reuid=${UID.ann}`, `--regid=${UID.ann}`, '--clear-groups', 'sh', '-c', swap],
      { stdio: 'ignore' },
    );
    const texts = Array.from({ length: 40 }, (_, i) => `Racing heron ${i}.`);
    try {
      for (const text of texts) await sendTo('ann', text);
    } finally {
      swapping.kill('SIGKILL');
      await new Promise((done) => swapping.once('exit', done));
    }
    assert.deepEqual(readdirSync(target), []);
    // Wherever the directories that were swapped are now.
    const places = ['new', 'kept', 'link'].map((name) => join(dir, name));
    const isDirectory = (path: string) =>
      lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
    const files = [...places.filter(isDirectory), join(stateBox('ann'), 'new')].flatMap((place) =>
      readdirSync(place).map((name) => readFileSync(join(place, name), 'utf8')),
    );
    for (const text of texts)
      assert.ok(
        files.some((file) => file.includes(text)),
        text,
      );
    for (const place of places) rmSync(place, { recursive: true, force: true });
  });

  it('what she puts there shows nobody what the runtime can read', async () => {
    const cur = join(maildirOf('ann'), 'cur');
    symlinkSync(join(world.stateDir, 'operator.key'), join(cur, '1.key:2,'));
    host('mkfifo', join(cur, '2.pipe:2,'));
    mkdirSync(join(cur, '3.dir:2,'));
    writeFileSync(join(cur, '4.closed:2,'), 'x', { mode: 0o000 });
    host('chown', String(UID.ann), join(cur, '4.closed:2,'));
    writeFileSync(join(cur, '5.own:2,'), 'Subject: Of ann\n\nHello.\n');
    host('chown', String(UID.ann), join(cur, '5.own:2,'));
    const { mails } = await world.maild.listMail({ query: { box: 'ann' } });
    assert.ok(
      mails.some(({ subject }) => subject === 'Of ann'),
      'control',
    );
    for (const n of [1, 2, 3])
      await assert.rejects(world.maild.readMail({ body: { box: 'ann', n } }), /no mail/);
    for (const name of readdirSync(cur).filter((file) => /^[1-5]\./.test(file)))
      rmSync(join(cur, name), { recursive: true });
  });

  it('Dovecot: a login by IMAP reads, marks, moves and deletes; what arrives meanwhile is there', async () => {
    rmSync(maildirOf('ann'), { recursive: true, force: true });
    await sendTo('ann', 'Lost with the directory');
    assert.ok(has(stateBox('ann'), 'Lost with the directory'), 'it is gone, so it waits here');
    await world.stop();
    world = await world.restart();
    await sendTo('ann', 'Heron by IMAP');
    await sendTo('ann', 'Stork by IMAP');
    const imap = await startDovecot(base, { home: homeOf('ann'), uid: UID.ann });
    try {
      const session = await imap.login('ann');
      assert.match(await session.say('SELECT INBOX'), /\* 2 EXISTS/);
      assert.match(await session.say('FETCH 1 BODY[TEXT]'), /Heron by IMAP/);
      assert.match(
        await session.say('STORE 1 +FLAGS (\\Flagged)'),
        /\\Flagged.*\\Seen|\\Seen.*\\Flagged/,
      );
      assert.match(await session.say('CREATE Done'), /OK/);
      assert.match(await session.say('MOVE 1 Done'), /OK/);
      await sendTo('ann', 'Crane by IMAP');
      assert.match(await session.say('NOOP'), /\* 2 EXISTS/);
      assert.match(await session.say('FETCH 2 BODY[TEXT]'), /Crane by IMAP/);
      await session.say('STORE 1 +FLAGS (\\Deleted)');
      assert.match(await session.say('EXPUNGE'), /\* 1 EXPUNGE/);
      await session.say('LOGOUT');
      const inBox = (await subjects('ann')).filter((subject) => /IMAP/.test(subject));
      assert.deepEqual(inBox, ['Crane by IMAP']);
      const { mails } = await world.maild.listMail({ query: { box: 'ann' } });
      assert.equal(mails.find(({ subject }) => /Crane/.test(subject))?.is_read, true);
      assert.ok(has(join(maildirOf('ann'), '.Done'), 'Heron by IMAP'));
    } finally {
      await imap.stop();
    }
  });
});

describe('Maildirs that root should not name', { skip }, () => {
  const cases: [string, object, RegExp][] = [
    ['an unknown account', { user: 'agentd-t-nobody' }, /account agentd-t-nobody not found/],
    ['root', { user: 'root' }, /root is root/],
    ['a home itself', { user: 'nobody', dir: userInfo().homedir }, /cannot be a mailbox/],
    ['a path with dots', { user: 'nobody', dir: '/srv/../etc' }, /cannot be a mailbox/],
  ];
  for (const [what, maildir, message] of cases)
    it(what, async () => {
      const base = freshDir();
      const config = JSON.stringify({ maild: { maildirs: { ann: maildir } } });
      await assert.rejects(startRuntime({ base, config }), message);
      rmSync(base, { recursive: true, force: true });
    });

  it('a directory of somebody else, or behind a link, is left alone', async () => {
    const base = freshDir();
    chmodSync(base, 0o711);
    mkdirSync(join(base, 'theirs'), { mode: 0o777 });
    symlinkSync(join(base, 'theirs'), join(base, 'link'));
    const maildirs = {
      ann: { user: 'nobody', dir: join(base, 'theirs') },
      bob: { user: 'nobody', dir: join(base, 'link') },
    };
    const world = await startRuntime({ base, config: JSON.stringify({ maild: { maildirs } }) });
    try {
      for (const to of ['ann', 'bob']) {
        await world.maild.sendMail({ body: { to, text: 'Heron' } });
        assert.equal(readdirSync(join(world.stateDir, 'mail', to, 'new')).length, 1);
      }
      assert.deepEqual(readdirSync(join(base, 'theirs')), []);
    } finally {
      await world.remove();
      rmSync(base, { recursive: true, force: true });
    }
  });
});

describe('Maildirs of people, started by an ordinary user', () => {
  const base = freshDir();
  after(() => rmSync(base, { recursive: true, force: true }));
  const uid = process.getuid?.() === 0 ? 65_534 : undefined;
  const user = uid === undefined ? userInfo().username : 'nobody';
  const start = (box: object) =>
    startRuntime({
      base,
      ...(uid === undefined ? {} : { uid }),
      config: JSON.stringify({ maild: { maildirs: { ann: box } } }),
    });

  it('mail goes where that user says, or stays; other users are refused', async () => {
    chmodSync(base, 0o711);
    const dir = join(base, 'box');
    const world = await start({ user, dir });
    try {
      await world.maild.sendMail({ body: { to: 'ann', text: 'Heron one' } });
      await world.maild.sendMail({ body: { to: 'operator', text: 'Heron two' } });
      assert.equal(readdirSync(join(dir, 'new')).length, 1);
      assert.equal(readdirSync(join(world.stateDir, 'mail', 'operator', 'new')).length, 1);
    } finally {
      await world.stop();
    }
    await assert.rejects(start({ user: 'daemon' }), /mail cannot be given to user daemon/);
  });
});

type Imap = {
  login(name: string): Promise<{ say(command: string): Promise<string> }>;
  stop(): Promise<void>;
};

/** A whole Dovecot on loopback, with its own directories. */
async function startDovecot(
  base: string,
  { home, uid }: { home: string; uid: number },
): Promise<Imap> {
  const dir = join(base, 'dovecot');
  mkdirSync(dir, { mode: 0o755 });
  const probe = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as net.AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  writeFileSync(
    join(dir, 'dovecot.conf'),
    `protocols = imap
listen = 127.0.0.1
base_dir = ${dir}/run
state_dir = ${dir}/state
log_path = ${dir}/log
ssl = no
disable_plaintext_auth = no
mail_location = maildir:~/Maildir
passdb {
  driver = static
  args = password=heron
}
userdb {
  driver = static
  args = uid=${uid} gid=${uid} home=${home}
}
service imap-login {
  inet_listener imap {
    port = ${port}
  }
  inet_listener imaps {
    port = 0
  }
}
`,
  );
  const master: ChildProcess = spawn('dovecot', ['-F', '-c', join(dir, 'dovecot.conf')], {
    stdio: 'ignore',
  });
  return {
    async login(name) {
      const socket = await eventually('Dovecot', async () => {
        const one = net.connect({ port, host: '127.0.0.1' });
        return new Promise<net.Socket | undefined>((resolve) => {
          one.once('data', () => resolve(one));
          one.once('error', () => resolve(undefined));
        });
      });
      let text = '';
      let n = 0;
      socket.setEncoding('utf8');
      socket.on('data', (chunk: string) => {
        text += chunk;
      });
      const say = async (command: string): Promise<string> => {
        const tag = `t${n++}`;
        text = '';
        socket.write(`${tag} ${command}\r\n`);
        const end = new RegExp(`^${tag} (OK|NO|BAD)[^\\n]*\\n`, 'm');
        return eventually(command, async () => (end.test(text) ? text : undefined));
      };
      assert.match(await say(`LOGIN ${name} heron`), /OK/);
      return { say };
    },
    async stop() {
      master.kill('SIGTERM');
      await new Promise((done) => master.once('exit', done));
    },
  };
}
