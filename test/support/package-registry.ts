// For tests: an npm registry with one package.
import { createHash } from 'node:crypto';
import type http from 'node:http';
import { gzipSync } from 'node:zlib';

/** A minimal tar archive of plain files. */
function tarOf(files: Record<string, string>): Buffer {
  const blocks = Object.entries(files).flatMap(([name, text]) => {
    const head = Buffer.alloc(512);
    head.write(name, 0);
    head.write('0000644\0'.padEnd(8), 100);
    head.write('0000000\0', 108);
    head.write('0000000\0', 116);
    head.write(`${Buffer.byteLength(text).toString(8).padStart(11, '0')}\0`, 124);
    head.write('00000000000\0', 136);
    head.write('        ', 148);
    head.write('0', 156);
    head.write('ustar\x0000', 257);
    const sum = head.reduce((total, byte) => total + byte, 0);
    head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
    const body = Buffer.alloc(Math.ceil(Buffer.byteLength(text) / 512) * 512);
    body.write(text);
    return [head, body];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1_024)]);
}

/** A registry with the package tiny-thing; `origin` is where programs reach it. */
export function registry(origin: () => string): http.RequestListener {
  const manifest = { name: 'tiny-thing', version: '1.0.0', main: 'index.js' };
  const tarball = gzipSync(
    tarOf({
      'package/package.json': JSON.stringify(manifest),
      'package/index.js': "module.exports = 'tiny';\n",
    }),
  );
  return (request, response) => {
    if (request.url === '/tiny-thing/-/tiny-thing-1.0.0.tgz') return void response.end(tarball);
    if (request.url !== '/tiny-thing') return void response.writeHead(404).end('{}');
    const dist = {
      tarball: `${origin()}/tiny-thing/-/tiny-thing-1.0.0.tgz`,
      integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}`,
    };
    const versions = { '1.0.0': { ...manifest, dist } };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ ...manifest, 'dist-tags': { latest: '1.0.0' }, versions }));
  };
}
