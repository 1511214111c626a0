// Loaded before a server: it believes to listen on PUBLIC_PORT, where the tap is, and tells the real port on stderr.
import { Server } from 'node:net';

const address = Server.prototype.address;
let told = false;
Server.prototype.address = function () {
  const real = address.call(this);
  if (real && typeof real === 'object' && !told) {
    told = true;
    process.stderr.write(`real port ${real.port}\n`);
  }
  return real && typeof real === 'object' ? { ...real, port: Number(process.env.PUBLIC_PORT) } : real;
};
