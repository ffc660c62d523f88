#!/usr/bin/env python3
"""cox as its users type it, over real processes: connections by contexts and TLS."""
import os, subprocess, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import ROOT, Cluster


class ConnectionTest(Cluster):
    """A controller on loopback that speaks TLS and asks for certificates."""

    def setUp(self):
        super().setUp()
        self.certificates('tls')
        tls = os.path.join(self.dir, 'tls/controller/')
        self.start_controller('--tls-cert', tls + 'tls.crt', '--tls-key', tls + 'tls.key', '--tls-ca', tls + 'ca.crt')
        self.address = self.endpoint['grpc']
        self.endpoint = {}  # contexts and flags say it, not the environment

    def certificates(self, folder):
        subprocess.run([os.path.join(ROOT, 'deploy/tls/make-certificates.sh'), os.path.join(self.dir, folder)], check=True,
                       capture_output=True)

    def context(self, name, client, *more, ca='tls'):
        folder = os.path.join(self.dir, client)
        self.cox('config', 'set-context', name, '--server', self.address, '--ca', os.path.join(self.dir, ca, 'ca.crt'),
                 '--cert', f'{folder}/client/tls.crt', '--key', f'{folder}/client/tls.key', *more)

    def said(self, *args):
        said = self.cox('get', *args, check=5).stderr
        print(said)
        self.assertIn(f'cannot reach the controller at {self.address}', said)
        return said

    def test_a_context_says_once_what_every_call_needs(self):
        self.context('lab', 'tls')
        self.cox('config', 'use-context', 'lab')
        self.assertEqual(self.cox('get').stderr, 'no jobs\n')
        self.cox('config', 'use-context', '--none')
        self.assertEqual(self.cox('get', '--context', 'lab').stderr, 'no jobs\n')
        self.assertEqual(self.cox('get', env={'COXSWAIN_CONTEXT': 'lab'}).stderr, 'no jobs\n')

    def test_what_keeps_a_call_from_arriving_is_told_with_what_to_do(self):
        self.assertIn('If it speaks TLS, give --tls-ca', self.said('--server', self.address))
        ca = os.path.join(self.dir, 'tls/ca.crt')
        self.assertIn('give --tls-cert and --tls-key', self.said('--server', self.address, '--tls-ca', ca))
        self.certificates('other')
        self.context('wrong-ca', 'tls', ca='other')
        self.assertIn(f'The CA in {self.dir}/other/ca.crt did not sign', self.said('--context', 'wrong-ca'))
        self.context('wrong-client', 'other')
        self.assertIn(f'It may not accept the certificate in {self.dir}/other/client/tls.crt',
                      self.said('--context', 'wrong-client'))


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
