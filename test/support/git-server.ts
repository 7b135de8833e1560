// For tests: a git repository served over HTTP by git itself.
import { spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import type http from 'node:http';
import { join } from 'node:path';

function git(home: string, ...argv: string[]): void {
  const who = ['-c', 'user.name=a', '-c', 'user.email=a@b.test'];
  const env = { PATH: process.env.PATH ?? '', HOME: home };
  const { status, stderr } = spawnSync('git', [...who, ...argv], { env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`git ${argv.join(' ')}: ${stderr}`);
}

/** Serves `/repo.git` with the file hello from `dir`, with the little CGI that git needs. */
export function gitServer(dir: string): http.RequestListener {
  const work = join(dir, 'work');
  git(dir, 'init', '-q', work);
  writeFileSync(join(work, 'hello'), 'hello\n');
  git(dir, '-C', work, 'add', 'hello');
  git(dir, '-C', work, 'commit', '-q', '-m', 'say hello');
  git(dir, 'clone', '-q', '--bare', work, join(dir, 'served', 'repo.git'));
  return (request, response) => {
    const [path = '', query = ''] = (request.url ?? '').split('?');
    const child = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env.PATH ?? '',
        GIT_PROJECT_ROOT: join(dir, 'served'),
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: path,
        QUERY_STRING: query,
        REQUEST_METHOD: request.method ?? 'GET',
        REMOTE_ADDR: '-',
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: String(request.headers['content-encoding'] ?? ''),
      },
    });
    request.pipe(child.stdin);
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('close', () => {
      const whole = Buffer.concat(chunks);
      const end = whole.indexOf('\r\n\r\n');
      const lines = whole.subarray(0, end).toString().split('\r\n');
      const status = lines.find((line) => /^status:/i.test(line))?.split(' ')[1] ?? '200';
      for (const line of lines) {
        const [, name, value] = /^([^:]+): (.*)$/.exec(line) ?? [];
        if (name !== undefined && !/^status$/i.test(name)) response.setHeader(name, value!);
      }
      response.writeHead(Number(status)).end(whole.subarray(end + 4));
    });
  };
}
