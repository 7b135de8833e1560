// A directory that a task changes in place (--live): what git would run or follow there for the
// person is removed after each command, named, kept and recorded. As root and as an ordinary user,
// in a granted directory and in one that the site allows. The control: while the command still
// runs, the person's git runs the program.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { GIT_ENV } from '../support/git-env.ts';
import { LAYER_MODES, type LayerBox, type LayerWorld, startLayerWorld } from '../support/layers.ts';
import { allEvents } from '../support/reconcile.ts';

const NOBODY = 65_534;
const ALICE = 61_502;
const IS_ROOT = process.getuid?.() === 0;
const LIVE = { workspace_mode: 'live' as const };
const EVIL = 'printf "#!/bin/sh\\ntouch ran\\n" > evil.sh && chmod 755 evil.sh';
const WAIT = 'touch ready; while [ ! -e go ]; do sleep 0.05; done';

/** Ways to have a program run when the person uses git in a directory below. */
const PLANTED: { what: string; at: string; script: string; removed: string; kind: string }[] = [
  {
    what: 'settings of a new repository',
    at: 'one',
    script: 'git init -q one && git -C one config core.fsmonitor ../evil.sh',
    removed: 'one/.git/config',
    kind: 'git_config',
  },
  {
    what: 'settings of a directory that looks like a bare repository',
    at: 'two',
    script:
      'mkdir -p two/objects two/refs && echo ref: refs/heads/x > two/HEAD && ' +
      'printf "[remote \\"o\\"]\\n url = .\\n uploadpack = ../evil.sh\\n" > two/config',
    removed: 'two/config',
    kind: 'git_config',
  },
  {
    what: 'a .git file that leads to a hidden repository',
    at: 'three',
    script:
      'git init -q hidden && git -C hidden config core.fsmonitor ../evil.sh && mkdir three && ' +
      'echo "gitdir: ../hidden/.git" > three/.git',
    removed: 'three/.git',
    kind: 'gitlink',
  },
  {
    what: 'a repository whose directories are closed',
    at: 'four',
    script:
      'git init -q four && git -C four config core.fsmonitor ../evil.sh && ' +
      'chmod 444 four/.git/config && chmod 555 four/.git',
    removed: 'four/.git/config',
    kind: 'git_config',
  },
];

for (const mode of LAYER_MODES)
  for (const place of ['granted', 'allowed by the site'] as const)
    describe(`a directory changed in place, ${place}, as ${mode}`, { timeout: 180_000 }, () => {
      const owner = mode === 'root' ? ALICE : IS_ROOT ? NOBODY : process.getuid!();
      let world: LayerWorld;
      let made = 0;
      before(async () => {
        world = await startLayerWorld(mode, {}, place === 'granted' ? {} : undefined);
      });
      after(() => world?.stop());

      const makeDirectory = async (files: Record<string, string> = {}): Promise<string> => {
        const { repo } = world.directory(`d${made++}`, files);
        if (place !== 'granted') return repo;
        if (IS_ROOT) chownSync(repo, owner, owner);
        const { stateDir, env } = world.runtime;
        const at = { state: stateDir, env, cwd: world.base };
        const { code, stderr } = await agentctl(['workspace', 'grant', repo], at);
        assert.equal(code, 0, stderr);
        return repo;
      };
      const openLive = (repo: string): Promise<LayerBox> => world.open(`t${made}`, repo, LIVE);
      const treeId = () => world.treeId(`t${made}`);
      /** As the person would; who runs the tests may be root, for whom modes do not count. */
      const git = (cwd: string, ...argv: string[]) => {
        const options = { cwd, env: GIT_ENV, encoding: 'utf8', stdio: 'pipe' } as const;
        try {
          return execFileSync('git', ['-c', 'safe.directory=*', ...argv], options);
        } catch (error) {
          return String((error as { stderr: string }).stderr);
        }
      };
      const hasRun = (repo: string, at: string): boolean => {
        rmSync(join(repo, at, 'ran'), { force: true });
        for (const words of [['status'], ['ls-remote', 'o']]) git(join(repo, at), ...words);
        return ['.', at].some((dir) => {
          const marker = join(repo, dir, 'ran');
          const isThere = existsSync(marker);
          rmSync(marker, { force: true });
          return isThere;
        });
      };
      const until = async (path: string): Promise<void> => {
        for (let left = 400; !existsSync(path); left--) {
          assert.ok(left > 0, `${path} has not appeared`);
          await delay(25);
        }
      };
      const listRemoved = async () => {
        const query = { root_task_id: treeId() };
        return (await world.runtime.sandboxd.listDisarmed({ query })).disarmed;
      };

      for (const { what, at, script, removed, kind } of PLANTED)
        it(`A3 B1 B3 runs nothing for the person from ${what}, once the command has ended`, async () => {
          const repo = await makeDirectory();
          const box = await openLive(repo);
          const running = box.exec(`${EVIL}; ${script}; ${WAIT}`);
          await until(join(repo, 'ready'));
          assert.ok(hasRun(repo, at), 'control: while the command runs, git runs the program');
          writeFileSync(join(repo, 'go'), '');
          const { exit_code, note } = await running;
          assert.equal(exit_code, 0);
          assert.ok(note?.includes(`${removed} (`), note);
          assert.ok(!hasRun(repo, at), 'afterwards it runs nothing');
          assert.ok(!existsSync(join(repo, removed)));
          const found = (await listRemoved()).find(({ path }) => path === removed);
          assert.equal(found?.kind, kind);
          assert.ok(readFileSync(found.kept_at!, 'utf8').length > 0);
          const events = await allEvents(world.runtime);
          const event = events.find(({ id }) => id === `${found.id}.disarmed`);
          assert.equal(event?.event, 'workspace.disarmed');
          assert.equal(event.data?.path, removed);
          await box.close();
        });

      it('leaves repositories that agents make without such settings, and examples of hooks', async () => {
        const repo = await makeDirectory();
        const box = await openLive(repo);
        const script =
          'git init -q sub && cd sub && git config user.name a && git config user.email a@b && ' +
          'echo x > x && git add x && git commit -qm one && git log --format=%s';
        const { exit_code, note, stdout_base64 } = await box.exec(script);
        assert.deepEqual([exit_code, note], [0, undefined]);
        assert.equal(Buffer.from(stdout_base64, 'base64').toString(), 'one\n');
        assert.equal(git(join(repo, 'sub'), 'log', '--format=%s'), 'one\n');
        assert.deepEqual(await listRemoved(), []);
        await box.close();
      });

      it('removes a hook, also where the repository was there, and leaves the person’s own', async () => {
        const repo = await makeDirectory();
        const sub = join(repo, 'sub');
        mkdirSync(sub);
        git(sub, 'init', '-q');
        const [own, theirs] = ['post-commit', 'pre-commit'].map((n) => join(sub, '.git/hooks', n));
        writeFileSync(own!, '#!/bin/sh\n:\n', { mode: 0o755 });
        if (IS_ROOT) execFileSync('chown', ['-R', `${owner}:${owner}`, sub]);
        if (place !== 'granted') execFileSync('chmod', ['-R', 'o+rwX', sub]);
        const box = await openLive(repo);
        const hook = `${EVIL}; cp evil.sh sub/.git/hooks/pre-commit`;
        assert.match((await box.exec(hook)).note!, /sub\/\.git\/hooks\/pre-commit \(git hooks\)/);
        assert.deepEqual([existsSync(own!), existsSync(theirs!)], [true, false]);
        const [kept] = await listRemoved();
        assert.match(readFileSync(kept!.kept_at!, 'utf8'), /touch ran/);
        assert.equal(kept!.mode & 0o110, 0o110);
        // The person restores it, as task show says: then it is hers, and stays.
        copyFileSync(kept!.kept_at!, theirs!);
        chmodSync(theirs!, 0o755);
        assert.equal((await box.exec('true')).note, undefined);
        assert.ok(existsSync(theirs!));
        await box.close();
      });

      it('removes what a process planted that was left running', async () => {
        const repo = await makeDirectory();
        const box = await openLive(repo);
        const later = `(sleep 0.3; mkdir x; cd x; git init -q; git config core.pager ./evil) &`;
        const { note } = await box.exec(`${later} sleep 0.1`);
        await delay(500);
        assert.equal(note, undefined, 'it was ended with its command');
        assert.ok(!existsSync(join(repo, 'x')));
        await box.close();
      });

      it('C13 leaves no empty setuid file, which openat2 can make', async () => {
        const repo = await makeDirectory();
        const box = await openLive(repo);
        const make =
          'import ctypes,os,struct\n' +
          'how=struct.pack("QQQ",os.O_CREAT|os.O_WRONLY,0o4755,0)\n' +
          'print(ctypes.CDLL(None).syscall(437,-100,b"empty",how,24))\n' +
          'print(oct(os.stat("empty").st_mode))';
        const running = box.exec(`python3 -c '${make}' && ${WAIT}`);
        await until(join(repo, 'ready'));
        assert.equal(lstatSync(join(repo, 'empty')).mode & 0o4100, 0o4100, 'control');
        writeFileSync(join(repo, 'go'), '');
        const { note } = await running;
        assert.match(note!, /setuid or setgid: empty\./);
        assert.equal(lstatSync(join(repo, 'empty')).mode & 0o6100, 0o100);
        await box.close();
      });

      it('checks what an ended runtime has left before the next command', async () => {
        const repo = await makeDirectory();
        const box = await openLive(repo);
        const { script, removed } = PLANTED[0]!;
        const running = box.exec(`${EVIL}; ${script}; ${WAIT}`).catch(() => undefined);
        await until(join(repo, 'ready'));
        world.killWarden();
        await running;
        for (let left = 200; existsSync(join(repo, removed)); left--) {
          assert.ok(left > 0, 'it is still there');
          await delay(50);
        }
        assert.ok((await listRemoved()).some(({ path }) => path === removed));
        chmodSync(repo, 0o755);
      });
    });
